"""A backward's source and its values in a run, the material for changes."""

from __future__ import annotations

import ast
import inspect
import math
import sys
import textwrap
import tokenize
from collections.abc import Callable, Mapping
from types import FrameType, FunctionType
from typing import Any, NamedTuple

import numpy as np

MOST_POOL = 32
#: Names of endless iterators.
ENDLESS = frozenset({"count", "cycle", "iter"})


class Source(NamedTuple):
    """A function with the tree that it was parsed to, and the names that it sees."""

    function: FunctionType
    tree: ast.Module
    first: int  # line of its file
    names: dict[str, Any]

    @property
    def definition(self) -> ast.FunctionDef:
        found = self.tree.body[0]
        assert isinstance(found, ast.FunctionDef)
        return found

    @property
    def may_run_for_ever(self) -> bool:
        """Whether a changed version might never end: it waits for a condition, or counts without end."""
        return any(
            isinstance(node, ast.While) or (isinstance(node, ast.Name | ast.Attribute) and _last(node) in ENDLESS)
            for node in ast.walk(self.tree)
        )


def _last(node: ast.Name | ast.Attribute) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr


def source_of(backward: Callable[..., Any]) -> Source | None:
    """The source of a Python function; None if it has none, or is part of a line."""
    function = inspect.unwrap(backward)
    if not isinstance(function, FunctionType):
        return None
    try:
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, SyntaxError, TypeError, tokenize.TokenError):
        return None
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.FunctionDef):
        return None
    tree.body[0].decorator_list = []
    names = function.__globals__ | dict(inspect.getclosurevars(function).nonlocals)
    return Source(function, tree, first, names)


def variables_of(function: Callable[..., Any], dy: Any, cache: Any) -> dict[str, Any]:
    """Every variable of the function when it returns, used or not, and what is in its cache, by their source."""
    found: dict[str, Any] = {}

    def of_return(frame: FrameType, event: str, arg: Any) -> None:
        if event == "return" and frame.f_code is function.__code__:
            found.update(frame.f_locals)

    before = sys.getprofile()
    sys.setprofile(of_return)
    try:
        function(dy, cache)
    finally:
        sys.setprofile(before)
    for name, value in list(found.items()):
        if value is cache and isinstance(cache, tuple | list):
            held = [id(other) for other in found.values()]
            found |= {f"{name}[{i}]": part for i, part in enumerate(cache) if id(part) not in held}
    return found


def helpers_of(forward: Callable[..., Any], source: Source) -> tuple[str, ...]:
    """Names of functions that the forward calls with one argument, and the backward can call too."""
    of_forward = source_of(forward)
    if of_forward is None:
        return ()
    calls = [n for n in ast.walk(of_forward.tree) if isinstance(n, ast.Call) and len(n.args) == 1 and not n.keywords]
    names = {call.func.id for call in calls if isinstance(call.func, ast.Name)}
    return tuple(sorted(name for name in names if isinstance(source.names.get(name), FunctionType)))


def pool(texts: Mapping[str, Any]) -> dict[str, Any]:
    """The values for changes: arrays and numbers by their source, names before longer expressions."""
    found = {
        text: value
        for text, value in sorted(texts.items(), key=lambda item: len(item[0]))
        if _is_number_or_array(value) and not text.lstrip("-").replace(".", "").isdigit()
    }
    arrays = {text: value for text, value in found.items() if np.ndim(value)}
    sizes: dict[str, Any] = {}
    for text, value in list(arrays.items())[:6]:
        if text.isidentifier():
            sizes |= {f"{text}.shape[{axis}]": length for axis, length in enumerate(np.shape(value))}
            sizes[f"{text}.shape[-1] ** 0.5"] = math.sqrt(np.shape(value)[-1])
            sizes[f"{text}.size"] = np.size(value)
    return dict(list(found.items())[:MOST_POOL]) | {text: value for text, value in sizes.items() if value > 1}


def _is_number_or_array(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "fiub" and 0 < value.size <= 10_000
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def constants_of(forward: Callable[..., Any]) -> tuple[float, ...]:
    """Numbers in the forward's source, and common constants of the field."""
    known = [math.sqrt(2 / math.pi), math.sqrt(2 * math.pi), 1 / math.sqrt(2 * math.pi), math.sqrt(0.5), math.pi,
             2 / math.sqrt(math.pi), 1 / math.sqrt(math.pi), 0.044715, 3 * 0.044715]  # fmt: skip
    source = source_of(forward)
    if source is None:
        return tuple(known)
    nodes = [n.value for n in ast.walk(source.tree) if isinstance(n, ast.Constant)]
    own = [n for n in nodes if isinstance(n, int | float) and not isinstance(n, bool)]
    own += [value for name in sorted(source.function.__code__.co_names)
            if isinstance(value := source.names.get(name), float)]  # fmt: skip
    return tuple(dict.fromkeys([*own, *(3 * n for n in own), *known]))
