"""The package's Python in the words that MicroPython has: no annotations, no dataclasses, no stars within displays."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence

_NOT_THERE = ("__future__", "typing", "collections.abc", "dataclasses", "functools", "pathlib", "npformer.typing")


def rewritten(text: str, only: Collection[str] = ()) -> str:
    """A module as MicroPython runs it; only: no more than these names and what they use."""
    tree = _Rewrite().visit(ast.parse(text))
    bound = [(_bound(statement), statement) for statement in tree.body]
    everything = {name for names, s in bound for name in names if not isinstance(s, ast.Import | ast.ImportFrom)}
    used = _used(bound, set(only) or everything | _exported(tree))
    tree.body = [s for names, s in bound if names & used or not names]
    for statement in tree.body:
        if isinstance(statement, ast.ImportFrom):
            statement.names = [name for name in statement.names if (name.asname or name.name) in used]
    text = ast.unparse(ast.fix_missing_locations(tree))
    head = "from collections import namedtuple\n" if "namedtuple(" in text else ""
    head += "import numpy as np\n" if "np." in text and "import numpy" not in text else ""
    return head + text + "\n"


def _exported(tree: ast.Module) -> set[str]:
    """The names in __all__."""
    lists = [s.value for s in tree.body if isinstance(s, ast.Assign) and ast.unparse(s.targets[0]) == "__all__"]
    return {name for each in lists for name in ast.literal_eval(each)}


def _bound(statement: ast.stmt) -> set[str]:
    """The names that a statement of a module binds."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return {statement.name}
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return {name.asname or name.name for name in statement.names}
    return {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _used(bound: Sequence[tuple[set[str], ast.stmt]], wanted: set[str]) -> set[str]:
    """The wanted names, and all that their statements use in turn."""
    used, todo = set[str](), set(wanted)
    while todo:
        used |= todo
        named = [n.id for names, s in bound if names & todo for n in ast.walk(s) if isinstance(n, ast.Name)]
        todo = set(named) - used
    return used


def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


class _Rewrite(ast.NodeTransformer):
    def visit_Import(self, node: ast.Import) -> ast.stmt | None:
        return None if node.names[0].name in ("inspect", "textwrap") else node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.stmt | None:
        return None if node.module in _NOT_THERE else node

    def visit_Expr(self, node: ast.Expr) -> ast.AST:  # a docstring
        return ast.Pass() if isinstance(node.value, ast.Constant) else self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns, given = None, node.args
        given.args, given.posonlyargs = given.posonlyargs + given.args, []
        for argument in [*given.args, *given.kwonlyargs, *filter(None, (given.vararg, given.kwarg))]:
            argument.annotation = None
        node.decorator_list = [d for d in node.decorator_list if ast.unparse(d) != "cache"]
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        made = node.value and ast.Assign([node.target], node.value, lineno=0)
        return self.generic_visit(made) if made else None

    def visit_Assign(self, node: ast.Assign) -> ast.AST | None:
        of_types = ("tuple", "list", "dict", "Callable", "Iterator", "Mapping", "Sequence")  # a name for a type
        value = node.value
        if isinstance(value, ast.Subscript) and isinstance(value.value, ast.Name) and value.value.id in of_types:
            return None
        return self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST | list[ast.stmt]:
        """A NamedTuple or a dataclass as a class whose __init__ takes its fields."""
        fields = [s for s in node.body if isinstance(s, ast.AnnAssign)]
        is_tuple = any(ast.unparse(base) == "NamedTuple" for base in node.bases)
        names = tuple(ast.unparse(f.target) for f in fields)
        values = {n: ast.unparse(f.value) for n, f in zip(names, fields, strict=True) if f.value}
        made = {n: v[len("field(default_factory=") : -1] for n, v in values.items() if "default_factory" in v}
        values |= {n: v[len("field(default=") : -1] for n, v in values.items() if v.startswith("field(default=")}
        values |= dict.fromkeys(made, "None")
        taken = ", ".join(n + (f"={values[n]}" if n in values else "") for n in names)
        if is_tuple and values:  # no defaults in MicroPython's namedtuple
            text = f"_{node.name} = namedtuple({node.name!r}, {names!r})\ndef {node.name}({taken}):\n"
            return ast.parse(f"{text}  return _{node.name}({', '.join(names)})").body
        if is_tuple:
            node.bases, text = [_expression(f"namedtuple({node.name!r}, {names!r})")], ""
        elif node.decorator_list:
            sets = [f"self.{n} = {n}" + (f" if {n} is not None else {made[n]}()" if n in made else "") for n in names]
            text = f"def __init__(self, {taken}):\n  " + "\n  ".join(sets or ["pass"])
        else:
            return self.generic_visit(node)
        node.decorator_list, node.body = [], [*ast.parse(text).body, *(s for s in node.body if s not in fields)]
        return self.generic_visit(node)

    def _display(self, node: ast.Tuple | ast.List | ast.Set, kind: str) -> ast.AST:
        """(*a, b) as tuple(a) + (b,)."""
        self.generic_visit(node)
        if isinstance(getattr(node, "ctx", ast.Load()), ast.Store) or not any(
            isinstance(e, ast.Starred) for e in node.elts
        ):
            return node
        parts = [f"{kind}({ast.unparse(e.value)})" if isinstance(e, ast.Starred) else f"{kind}([{ast.unparse(e)}])"
                 for e in node.elts]  # fmt: skip
        return _expression((" | " if kind == "set" else " + ").join(parts))

    def visit_Tuple(self, node: ast.Tuple) -> ast.AST:
        return self._display(node, "tuple")

    def visit_List(self, node: ast.List) -> ast.AST:
        return self._display(node, "list")

    def visit_Set(self, node: ast.Set) -> ast.AST:
        return self._display(node, "set")

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = ast.unparse(node.func)
        if name.endswith(".keys"):
            return ast.Call(ast.Name("set", ast.Load()), [node], [])
        if name == "float":
            node.func = _expression("np.number")
        if name == "zip":
            node.keywords = []
        if name == "isinstance":
            node.args[1] = _expression(f"({ast.unparse(node.args[1]).replace(' | ', ', ')})")
        return node
