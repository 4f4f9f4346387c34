"""Finds a quoted piece of code in a function, whatever its variables are called there, and replaces it.

A quote is an expression or some statements. It is compared as a syntax tree, so comments and line breaks do not matter.
Its variables may have other names in the function, each the same name everywhere; attributes, keywords and names of
the module are as quoted. Three dots alone on their line stand for any statements. A quoted statement that stays keeps
its comments, and so does the last one.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple


class QuoteError(ValueError):
    """A quote does not occur exactly once, or its replacement uses a variable that it does not quote."""


class _Match(NamedTuple):
    """A place that a quote fits, as far as it has been compared."""

    nodes: Sequence[Any]
    names: Mapping[str, str]  # quoted -> there
    dots: tuple[Sequence[Any], ...] = ()  # what each three dots stand for


def replaced(source: str, old: str, new: str, module: Container[str] = ()) -> str:
    """The source of a function with ``new`` in place of ``old``, in the function's own names. Raises QuoteError.

    module: the names that mean the same in each of its functions.
    """
    function = ast.parse(source)
    comparison = _Comparison(variables(function), module)
    found = list(comparison.places(function, old, new))
    if len(found) != 1:
        raise QuoteError(f"expected this code exactly once, found it {len(found)} times:\n{old}")
    (match,) = found
    unknown = comparison.unknown(new, match.names)
    if unknown:
        raise QuoteError(f"expected a quote with {', '.join(unknown)}, which this uses; quote such a line:\n{new}")
    return _put(source, match, renamed(new, match.names))


def variables(tree: ast.AST) -> set[str]:
    """The parameters and the names that are assigned, those inside comprehensions and inner functions included."""
    nodes = list(ast.walk(tree))
    assigned = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return assigned | {node.arg for node in nodes if isinstance(node, ast.arg)}


def renamed(code: str, names: Mapping[str, str]) -> str:
    """The code with other names for some of its variables."""
    for node in sorted(ast.walk(ast.parse(code)), key=_begin, reverse=True):
        name = node.id if isinstance(node, ast.Name) else node.arg if isinstance(node, ast.arg) else ""
        if name in names:
            start = _offset(code, *_begin(node))
            code = code[:start] + names[name] + code[start + len(name) :]
    return code


@dataclass(frozen=True)
class _Comparison:
    """Compares quotes with a function that has these variables."""

    variables: set[str]
    module: Container[str]

    def places(self, function: ast.AST, old: str, new: str) -> Iterator[_Match]:
        """Every place of the function that the quote fits: an expression, if both are, else neighbouring statements."""
        quote = ast.parse(old).body
        if _is_expression(old) and _is_expression(new):
            quoted: list[Any] = [quote[0].value]  # type: ignore[attr-defined]
            places: Iterator[list[Any]] = ([node] for node in ast.walk(function) if isinstance(node, ast.expr))
        else:
            quoted, places = quote, _runs(function)
        for nodes in places:
            match = self._listed(quoted, nodes, _Match(nodes, {}))
            if match is not None:
                yield match

    def unknown(self, new: str, quoted: Container[str]) -> list[str]:
        """The variables of new that it does not set itself, or sets though the function has them, unquoted."""
        tree = ast.parse(new)
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id not in quoted}
        own = variables(tree) - self.variables
        return sorted(name for name in names if name not in own and not self._is_fixed(name))

    def _is_fixed(self, name: str) -> bool:
        return name not in self.variables and (name in self.module or hasattr(builtins, name))

    def _compared(self, quoted: Any, here: Any, match: _Match) -> _Match | None:
        """The match with what this part adds to it; None if it differs."""
        if isinstance(quoted, list):
            return self._listed(quoted, here, match)
        if type(quoted) is not type(here) or not isinstance(quoted, ast.AST):
            return match if repr(quoted) == repr(here) else None
        found: _Match | None = match
        for field in quoted._fields:
            compared = self._named if (type(quoted), field) in ((ast.Name, "id"), (ast.arg, "arg")) else self._compared
            found = found and compared(getattr(quoted, field), getattr(here, field), found)
        return found

    def _named(self, quoted: str, here: str, match: _Match) -> _Match | None:
        if self._is_fixed(quoted) or here not in self.variables:
            return match if quoted == here else None
        if quoted in match.names or here in match.names.values():
            return match if match.names.get(quoted) == here else None
        return match._replace(names={**match.names, quoted: here})

    def _listed(self, quoted: Sequence[Any], here: Sequence[Any], match: _Match | None) -> _Match | None:
        """The same for lists; three dots stand for as few statements as fit."""
        if match is None or not quoted:
            return None if here else match
        first, rest = quoted[0], quoted[1:]
        if _is_dots(first):
            parts = ((here[:n], here[n:]) for n in range(len(here) + 1))
            tried = (self._listed(rest, after, match._replace(dots=(*match.dots, some))) for some, after in parts)
            return next(filter(None, tried), None)
        return self._listed(rest, here[1:], self._compared(first, here[0], match)) if here else None


def _is_expression(code: str) -> bool:
    statements = ast.parse(code).body
    return len(statements) == 1 and isinstance(statements[0], ast.Expr)


def _is_dots(node: Any) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and node.value.value is ...


def _runs(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    """Neighbouring statements, one or more, of every body."""
    for node in ast.walk(tree):
        for _, body in ast.iter_fields(node):
            if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
                yield from (body[i:j] for i in range(len(body)) for j in range(i + 1, len(body) + 1))


def _put(source: str, match: _Match, new: str) -> str:
    """The source with the new code where the quoted one is."""
    start, end = _span(source, match.nodes)
    line = source.rfind("\n", 0, start) + 1
    indentation = len(source[line:]) - len(source[line:].lstrip())
    if isinstance(match.nodes[0], ast.expr):
        return _put_expression(source, start, end, _moved(new, 0, indentation))
    if not new:
        return source[:line] + source[_line_end(source, end) + 1 :]
    quoted = {ast.dump(node): [node] for outer in match.nodes for node in ast.walk(outer) if isinstance(node, ast.stmt)}
    dots = iter(match.dots)
    staying = list(_staying(ast.parse(new).body, quoted, dots))
    if next(dots, None) is not None:
        raise QuoteError(f"expected three dots as often as in the quote, which would be lost:\n{new}")
    for statement, nodes in reversed(staying):
        begin, stop = _span(new, [statement])
        if nodes:
            first, last = _span(source, nodes)
            kept = source[first : last if last == end else _line_end(source, last)]
            new = new[:begin] + _moved(kept, nodes[0].col_offset, statement.col_offset) + new[stop:]
    return source[:start] + _moved(new, 0, indentation) + source[end:]


def _put_expression(source: str, start: int, end: int, new: str) -> str:
    """The same for an expression, in parentheses where it needs them and only there."""
    inner = 1 if source[start - 1] + source[end : end + 1] == "()" else 0
    for wider in (inner, 0):
        before, after = source[: start - wider], source[end + wider :]
        with suppress(SyntaxError):
            if _stands(before + new + after, new, len(before)):
                return before + new + after
    return f"{source[:start]}({new}){source[end:]}"


def _staying(
    body: list[ast.stmt], quoted: Mapping[str, Sequence[ast.stmt]], dots: Iterator[Sequence[ast.stmt]]
) -> Iterator[tuple[ast.stmt, Sequence[ast.stmt]]]:
    """The statements that the function has already, or three dots, each with those of the function."""
    for statement in body:
        if _is_dots(statement):
            yield statement, next(dots)
        elif ast.dump(statement) in quoted:
            yield statement, quoted[ast.dump(statement)]
        else:
            yield from _staying(getattr(statement, "body", []), quoted, dots)


def _stands(code: str, expression: str, start: int) -> bool:
    """Whether an expression at a place of the code is one there: a + b in a + b * c is none."""
    expected = ast.dump(ast.parse(expression, mode="eval").body)
    found = (node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.expr) and ast.dump(node) == expected)
    return any(_span(code, [node]) == (start, start + len(expression)) for node in found)


def _moved(code: str, column: int, to: int) -> str:
    """Lines that begin at a column, the first without its indentation, for another column."""
    first, *rest = code.split("\n")
    return "\n".join([first, *(" " * to + line[column:] for line in rest)])


def _begin(node: Any) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def _offset(code: str, line: int, column: int) -> int:
    """Where a place of a tree, whose columns count bytes, is in the text."""
    lines = code.splitlines(keepends=True)
    return sum(map(len, lines[: line - 1])) + len(lines[line - 1].encode()[:column].decode())


def _span(code: str, nodes: Sequence[Any]) -> tuple[int, int]:
    return _offset(code, *_begin(nodes[0])), _offset(code, nodes[-1].end_lineno, nodes[-1].end_col_offset)


def _line_end(code: str, at: int) -> int:
    return code.index("\n", at)
