"""A proposed change, applied to the source that it is about."""

import ast
import re

#: "file.py, line 12, in backward: `a` should be `b`", "… should not be there", with the places if there are several.
SENTENCE = re.compile(
    r"line (?P<line>\d+)[^`:]*: `(?P<old>[^`]*)` should (?:be `(?P<new>[^`]*)`|(?P<gone>not be there))"
    r"(?:, in (?P<places>\d+) places)?"
)
WITH = re.compile(r"line (?P<line>\d+)[^`:]*: `with [^`]*` cuts the graph")


def proposed(text):
    """Whether an explanation proposes a change of a line."""
    return SENTENCE.search(text) is not None or WITH.search(text) is not None


def applied(source, text):
    """The source with every change that an explanation proposes; None if it proposes none, or not in full."""
    tree, changes = ast.parse(source), 0
    for found in {match.group(): match for match in SENTENCE.finditer(text)}.values():
        line, gone = int(found["line"]), found["gone"] is not None
        nodes = places_of(tree, found["old"], line, bool(found["places"]))
        if not nodes:
            return None
        for parent, field, at in nodes if found["places"] else nodes[:1]:
            old = getattr(parent, field) if at is None else getattr(parent, field)[at]
            try:
                put(parent, field, at, ast.Pass() if gone else node_of(found["new"], old))
            except SyntaxError:  # a long text is shortened, and a lambda stands in a line of its own
                return None
            changes += 1
    for found in WITH.finditer(text):
        for parent, field, at, node in children(tree):
            if isinstance(node, ast.With) and node.lineno == int(found["line"]):
                put(parent, field, at, ast.If(ast.Constant(True), node.body, []))
                changes += 1
    return ast.unparse(ast.fix_missing_locations(tree)) if changes else None


def places_of(tree, text, line, everywhere):
    """The places that read so, of this line; of its function, if the same stands in several places."""
    wanted = (plain(text), text)  # arguments read as an assignment
    return [
        (parent, field, at) for parent, field, at, node in children(tree)
        if isinstance(node, ast.expr | ast.stmt | ast.arguments) and ast.unparse(node) in wanted
        and (everywhere or getattr(node, "lineno", getattr(parent, "lineno", 0)) == line)
    ]  # fmt: skip


def plain(text):
    """The text as the tree is written out."""
    try:
        return ast.unparse(ast.parse(text))
    except SyntaxError:
        return text


def node_of(text, old):
    """The new node, in the place of an old one."""
    if isinstance(old, ast.arguments):
        return ast.parse(f"lambda {text}: 0", mode="eval").body.args
    text = re.sub(r"\.mT\b", ".swapaxes(-1, -2)", text)
    text = re.sub(r"\bnp\.", "__import__('numpy').", text)
    (node,) = ast.parse(text).body
    return node.value if isinstance(node, ast.Expr) and isinstance(old, ast.expr) else node


def children(tree):
    """(parent, field, index, node) of every node."""
    for parent in ast.walk(tree):
        for field, value in ast.iter_fields(parent):
            for at, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
                if isinstance(node, ast.AST):
                    yield parent, field, at, node


def put(parent, field, at, node):
    """Put a node into a place."""
    if at is None:
        setattr(parent, field, node)
    else:
        getattr(parent, field)[at] = node
