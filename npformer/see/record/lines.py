"""The values after each line of a pair: its own functions run under a line tracer, so the code explains itself.

``sys.settrace`` calls the tracer before each line. When the next statement begins, the local names that have changed
are what the statement before it made. Shown are the functions of every file of ``functional`` that holds an
operation, and those of the user's own file; what they call elsewhere (NumPy, masks, random bits) is seen by its result.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import numpy as np

from npformer.check.checkable import unwrapped
from npformer.check.inputs import copied, is_array
from npformer.functional import OPERATIONS
from npformer.functional.arrays import namespace

_PACKAGE = Path(__file__).parents[3]


@dataclass(frozen=True)
class Shown:
    """A function whose lines are shown, as its code is now: a bug of the museum changes it."""

    name: str
    code: CodeType
    path: str  # the file it stands in, which for a changed function is not that of its code
    doc: str  # of its file

    @cached_property
    def text(self) -> str | None:
        """Its source; None where there is none, as for functions typed into Python's prompt."""
        lines = linecache.getlines(self.code.co_filename)[self.code.co_firstlineno - 1 :]
        try:
            return textwrap.dedent("".join(inspect.getblock(lines))) if lines else None
        except (SyntaxError, IndentationError):
            return None

    @cached_property
    def _statements(self) -> dict[int, ast.stmt]:
        """Line of the file -> the statement that it belongs to; of a block, only the head."""
        try:
            tree = ast.parse(self.text or "")
        except SyntaxError:
            return {}
        by_line: dict[int, ast.stmt] = {}
        for node in ast.walk(tree):  # outer statements first, so inner ones replace them
            if isinstance(node, ast.stmt):
                by_line |= {line + self.code.co_firstlineno - 1: node for line in lines_of(node)}
        return by_line

    def statement(self, line: int) -> tuple[int, ast.stmt | None]:
        """(first line in the file, statement) of a line."""
        node = self._statements.get(line)
        return (line, None) if node is None else (node.lineno + self.code.co_firstlineno - 1, node)


def lines_of(node: ast.stmt) -> range:
    """The lines of a statement; of a block, those of its head."""
    body = getattr(node, "body", None)
    last = body[0].lineno - 1 if body else node.end_lineno or node.lineno
    return range(node.lineno, max(last, node.lineno) + 1)


@dataclass
class Statement:
    """One statement that ran."""

    line: int  # its first, in its file
    node: ast.stmt | None
    before: dict[str, Any]  # all local names before it; arrays are copies
    values: dict[str, Any] = field(default_factory=dict)  # the names that it changed; "return": what it returned
    inside: list[Frame] = field(default_factory=list)  # the shown functions that it called


@dataclass
class Frame:
    """One run of a shown function."""

    function: Shown
    globals: dict[str, Any]
    arguments: dict[str, Any]
    now: dict[str, Any]  # its local names when they were last looked at
    steps: list[Statement] = field(default_factory=list)
    returned: Any = None

    def reach(self, line: int, names: dict[str, Any]) -> None:
        """A line is about to run."""
        first, node = self.function.statement(line)
        if self.steps and node is not None and node is self.steps[-1].node:
            return  # another line of the same statement
        self._close(names)
        self.steps.append(Statement(first, node, self.now))

    def leave(self, names: dict[str, Any], returned: Any) -> None:
        """The function ends."""
        self._close(names)
        self.returned = returned
        if self.steps and (isinstance(self.steps[-1].node, ast.Return) or returned is not None):
            self.steps[-1].values["return"] = returned

    def _close(self, names: dict[str, Any]) -> None:
        same, self.now = self.now, _snapshot(names, self.now)
        if self.steps:
            told = _assigned(self.steps[-1].node)
            self.steps[-1].values = {
                name: x for name, x in self.now.items() if name in told or name not in same or x is not same[name]
            }


class LineTracer:
    """Collects frames. ``scope`` begins a new list of them, so that each call of an operation has its own."""

    def __init__(self, functions: Iterable[Shown]) -> None:
        self._shown = {shown.code: shown for shown in functions}
        self._scopes: list[tuple[list[Frame], list[Frame]]] = [([], [])]  # outermost ones, and those that are running

    @property
    def frames(self) -> list[Frame]:
        """The frames of the present scope, outermost ones only."""
        return self._scopes[-1][0]

    def begin(self) -> None:
        """Begin a scope."""
        self._scopes.append(([], []))

    def end(self) -> list[Frame]:
        """End the present scope. Returns its frames."""
        return self._scopes.pop()[0]

    def enter(self, frame: FrameType, event: str, arg: Any) -> Callable[..., Any] | None:
        """Python's call at the beginning of each function."""
        shown = self._shown.get(frame.f_code)
        if event != "call" or shown is None:
            return None
        frames, opened = self._scopes[-1]
        code = frame.f_code
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        now = _snapshot(frame.f_locals, {})
        made = Frame(shown, frame.f_globals, {name: now[name] for name in names if name in now}, now)
        (opened[-1].steps[-1].inside if opened and opened[-1].steps else frames).append(made)
        opened.append(made)
        return self._line

    def _line(self, frame: FrameType, event: str, arg: Any) -> Callable[..., Any]:
        """Python's call before each line, and at the end of the function."""
        opened = self._scopes[-1][1]
        if event == "line":
            opened[-1].reach(frame.f_lineno, frame.f_locals)
        elif event == "return":
            opened.pop().leave(frame.f_locals, arg)
        return self._line


def _assigned(node: ast.stmt | None) -> set[str]:
    """The names that a statement assigns; of a block, only its head does."""
    if node is None or isinstance(node, ast.FunctionDef | ast.ClassDef):
        return set()
    heads = [getattr(node, name) for name in ("target", "test", "iter") if hasattr(node, name)]
    parts = heads if hasattr(node, "body") else [node]
    names = (inner for part in parts for inner in ast.walk(part) if isinstance(inner, ast.Name))
    return {name.id for name in names if isinstance(name.ctx, ast.Store)}


def _snapshot(names: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """The local names as they are now. What has not changed is the object of before; arrays and lists are copied."""
    return {name: _kept(x, before.get(name)) for name, x in names.items()}


def _kept(x: Any, before: Any) -> Any:
    if type(x) in (list, dict):
        old = _parts(before) if type(before) is type(x) else None
        now = {key: _kept(part, (old or {}).get(key)) for key, part in _parts(x).items()}
        if old is not None and now.keys() == old.keys() and all(now[key] is old[key] for key in now):
            return before
        return now if type(x) is dict else list(now.values())
    if not is_array(x):
        return x
    alike = type(before) is type(x) and before.shape == x.shape and before.dtype == x.dtype
    return before if alike and _equal(x, before) else copied(x)


def _parts(x: Any) -> dict[Any, Any]:
    """The parts of a list or a dict, by their places."""
    return dict(enumerate(x)) if type(x) is list else x


def _equal(x: Any, other: Any) -> bool:
    if isinstance(x, np.ndarray | np.generic):
        return np.array_equal(x, other, equal_nan=x.dtype.kind == "f")
    return bool(namespace(x).all(x == other))


@contextmanager
def tracing_lines(functions: Iterable[Any] = ()) -> Iterator[LineTracer]:
    """Within this context, the lines of npformer's operations and of these functions are recorded.

    functions: a user's own; all functions of their files are shown. A debugger's tracer is suspended meanwhile.
    """
    tracer = LineTracer([*_of_operations(), *_of_files(functions)])
    before = sys.gettrace()
    sys.settrace(tracer.enter)
    try:
        yield tracer
    finally:
        sys.settrace(before)


def _of_operations() -> Iterator[Shown]:
    """The functions of each file that holds an operation."""
    for module in dict.fromkeys(sys.modules[row.forward.__module__] for row in OPERATIONS.values()):
        path = str(Path(str(module.__file__)).relative_to(_PACKAGE))
        for function in vars(module).values():
            defined_here = isinstance(function, FunctionType) and function.__module__ == module.__name__
            if defined_here and not function.__name__.startswith("expect_"):  # these check shapes
                yield Shown(function.__name__, function.__code__, path, module.__doc__ or "")


def _of_files(functions: Iterable[Any]) -> Iterator[Shown]:
    """The functions of the files in which these functions stand, except npformer's own."""
    for function in map(plain_function, functions):
        if function is None or str(function.__module__).partition(".")[0] == "npformer":
            continue
        names = function.__globals__
        in_file = [function, *_functions_in(names, function.__code__.co_filename)]
        for shown in {one.__code__: one for one in in_file}.values():
            yield Shown(
                shown.__qualname__.rpartition("<locals>.")[2], shown.__code__, _file(shown), names.get("__doc__") or ""
            )


def _functions_in(names: dict[str, Any], file: str) -> Iterator[FunctionType]:
    """The functions and methods among these global names that stand in a file."""
    things = [*names.values()]
    for thing in [*things, *(m for base in things if isinstance(base, type) for m in vars(base).values())]:
        if isinstance(thing, FunctionType) and thing.__code__.co_filename == file:
            yield thing


def plain_function(callable_: Any) -> FunctionType | None:
    """The Python function in a method, a partial or a wrapper; None if there is none, as for compiled functions."""
    function = unwrapped(callable_)
    return function if isinstance(function, FunctionType) else None


def _file(function: FunctionType) -> str:
    """The file of a user's function: its path from here, or its name alone."""
    path = Path(function.__code__.co_filename)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else path.name
