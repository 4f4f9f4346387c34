"""A backward's source and its values in a run, the material for changes."""

from __future__ import annotations

import ast
import inspect
import math
import sys
import sysconfig
import textwrap
import tokenize
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePath
from types import CodeType, FrameType, FunctionType
from typing import Any, NamedTuple

import numpy as np

from npformer.proof.checkable import as_numpy

MOST_POOL = 32
#: Names of endless iterators.
ENDLESS = frozenset({"count", "cycle", "iter"})
#: The name of a lambda that was made a function.
LAMBDA = "_lambda_"


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
            isinstance(node, ast.While) or ENDLESS & {getattr(node, "id", ""), getattr(node, "attr", "")}
            for node in ast.walk(self.tree)
        )

    def place(self, line: int) -> str:
        """A line of the tree as the user knows it: its file or its cell, and the function."""
        name, file = self.function.__name__, PurePath(self.function.__code__.co_filename)
        at = f"line {self.first + line - 1}"
        inside = "" if self.definition.name == LAMBDA else f", in {name}"
        if "ipykernel" in str(file) or str(file).startswith(("<ipython-input", "<python-input", "<stdin")):
            return f"{at} of its cell{inside}"
        return f"{at} of {name}" if str(file).startswith("<") else f"{file.name}, {at}{inside}"

    def callees(self) -> Iterator[tuple[str, Source]]:
        """The functions of the user's that it calls by name, each with that name."""
        for name in dict.fromkeys(n.id for n in ast.walk(self.tree) if isinstance(n, ast.Name)):
            function = self.names.get(name)
            source = source_of(function) if callable(function) else None
            if source is not None and not is_installed(source.function) and source.function is not self.function:
                yield name, source


def is_installed(function: Any) -> bool:
    """Whether a function is from a library, Python's or npformer's, and not from the user."""
    file = PurePath(function.__code__.co_filename)
    libraries = map(sysconfig.get_path, ("stdlib", "purelib", "platlib"))
    return str(function.__module__).startswith("npformer.") or any(file.is_relative_to(place) for place in libraries)


def source_of(backward: Callable[..., Any]) -> Source | None:
    """The source of a Python function or lambda; None if it has none, as at Python's prompt."""
    function = inspect.unwrap(backward)
    if not isinstance(function, FunctionType):
        return None
    try:
        if function.__name__ == "<lambda>":
            tree, first = _lambda_of(function.__code__, "".join(inspect.findsource(function)[0])), 1
        else:
            lines, first = inspect.getsourcelines(function)
            tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, SyntaxError, TypeError, ValueError, tokenize.TokenError):
        return None
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.FunctionDef):
        return None
    tree.body[0].decorator_list = []
    names = function.__globals__ | dict(inspect.getclosurevars(function).nonlocals)
    return Source(function, tree, first, names)


def _lambda_of(code: CodeType, text: str) -> ast.Module:
    """The lambda with this code as a function that returns its body. Raises ValueError if the text does not hold it."""
    spans = {(start, left, end, right) for start, end, left, right in code.co_positions()}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Lambda):
            body = node.body
            if (body.lineno, body.col_offset, body.end_lineno, body.end_col_offset) in spans:
                result = ast.copy_location(ast.Return(body), body)
                made = ast.FunctionDef(LAMBDA, node.args, [result], [])
                return ast.Module([ast.fix_missing_locations(ast.copy_location(made, node))], [])
    raise ValueError("no such lambda")


def variables_of(function: FunctionType, call: Callable[[], Any]) -> dict[str, Any]:
    """Every variable of the function when it returns from this call, used or not, by its source.

    The parts of a tuple, a list or an object that it was given are among them: ``cache[0]``, ``self.x``.
    """
    found: dict[str, Any] = {}

    def of_return(frame: FrameType, event: str, arg: Any) -> None:
        if event == "return" and frame.f_code is function.__code__:
            found.update(frame.f_locals)

    before = sys.getprofile()
    sys.setprofile(of_return)
    try:
        call()
    finally:
        sys.setprofile(before)
    held = [id(value) for value in found.values()]
    for name in function.__code__.co_varnames[: function.__code__.co_argcount]:
        given = found.get(name)
        if isinstance(given, tuple | list):
            found |= {f"{name}[{i}]": part for i, part in enumerate(given) if id(part) not in held}
        elif hasattr(given, "__dict__"):
            found |= {f"{name}.{attribute}": part for attribute, part in vars(given).items()}
    return {text: as_numpy(value) for text, value in found.items()}


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
    own += [
        value
        for name in sorted(source.function.__code__.co_names)
        if isinstance(value := source.names.get(name), float)
    ]
    return tuple(dict.fromkeys([*own, *(3 * n for n in own), *known]))
