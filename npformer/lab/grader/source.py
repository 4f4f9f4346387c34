"""Reads and parses a learner's file before it runs; finds its functions and forbidden imports."""

from __future__ import annotations

import ast
import difflib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from npformer.check.diagnosis.mutants import called
from npformer.errors import DataError
from npformer.io.printable import visible
from npformer.lab.grader.exercises import BY_NAME, EXERCISES, Exercise, find

LARGEST = 1_000_000  # bytes of source

#: Libraries that hold the answer or compute it: refused in the source and at run time.
BANNED = (
    "npformer", "torch", "torchvision", "jax", "jaxlib", "flax", "haiku", "equinox", "tensorflow", "keras", "autograd",
    "theano", "aesara", "pytensor", "mxnet", "paddle", "chainer", "tinygrad", "micrograd", "mindspore", "mlx",
    "casadi", "numdifftools", "thinc",
)  # fmt: skip


@dataclass(frozen=True)
class Source:
    """A parsed Python file: its text and the names defined at its top level."""

    path: Path
    text: str
    tree: ast.Module
    names: frozenset[str]

    def line(self, number: int | None) -> str:
        """A line of the file, without its indentation; empty if there is none."""
        lines = self.text.splitlines()
        return lines[number - 1].strip() if number is not None and 0 < number <= len(lines) else ""

    def at(self, number: int | None, before: str = "") -> str:
        """The line with its number, after some text; empty if there is no number."""
        return f"{before}line {number}: {self.line(number)}" if number else ""


def read_source(path: Path) -> Source:
    """Read and parse a learner's file. Raises DataError if it is missing, no text, or not Python."""
    try:
        data = path.read_bytes() if path.stat().st_size <= LARGEST else None
    except FileNotFoundError:
        raise DataError(
            f"{path}: no such file; `npformer grade --template softmax` writes one to fill in, --list shows all"
        ) from None
    except OSError as error:
        raise DataError(f"{path}: expected a readable Python file, got: {error.strerror}") from error
    if data is None:
        raise DataError(f"{path}: expected a Python file of at most {LARGEST:,} bytes; is it the right file?")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: expected a Python file in UTF-8, got an invalid byte at {error.start}") from None
    tree = _parsed(path, text)
    return Source(path, text, tree, frozenset(_names(tree)))


def _parsed(path: Path, text: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the warning "invalid escape sequence" appears when the file runs
            return ast.parse(text, str(path))
    except SyntaxError as error:
        raise DataError(f"{path}: Python cannot read it\n{_marked(error)}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise DataError(f"{path}: Python cannot read it: {error}") from None


def _marked(error: SyntaxError) -> str:
    """Line, caret and reason of a syntax error."""
    line = (error.text or "").rstrip("\n").replace("\t", " ")
    before = visible(line[: max(error.offset or 1, 1) - 1])
    place = f"  line {error.lineno}: {error.msg}"
    if not line.strip():
        return place
    return f"{place}\n    {visible(line)}\n    {' ' * len(before)}^"


def _names(tree: ast.Module) -> Iterator[str]:
    """The names that the top level binds: functions, assignments, imports, also below if and try."""
    for node in _top_level(tree.body):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (n.id for target in node.targets for n in ast.walk(target) if isinstance(n, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
        elif isinstance(node, ast.ImportFrom) and node.module != "parts":
            yield from (alias.asname or alias.name for alias in node.names)


def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        if isinstance(node, ast.If | ast.Try | ast.With):
            yield from _top_level([n for n in ast.iter_child_nodes(node) if isinstance(n, ast.stmt)])
        else:
            yield node


def exercises_in(source: Source, forced: str | None = None) -> list[Exercise]:
    """The exercises whose pairs a file defines, in teaching order, or only the forced one.

    Raises DataError if there is none, or half of one; ConfigError if the forced one does not exist.
    """
    wanted = [find(forced)] if forced else [e for e in EXERCISES if source.names.intersection(e.functions)]
    for exercise in wanted:
        missing = sorted(set(exercise.functions) - source.names)
        if missing:
            near = difflib.get_close_matches(missing[0], sorted(source.names - _all_functions()), n=1, cutoff=0.75)
            shown = f"; `npformer grade --template {exercise.name}` shows both"
            meant = f"; is `{near[0]}` meant to be it?" if near else shown
            raise DataError(
                f"{source.path}: expected {exercise.name}_forward and {exercise.name}_backward, a pair, "
                f"got no {' and no '.join(missing)}{meant}"
            )
    if not wanted:
        raise DataError(f"{source.path}: expected the functions of an exercise, {_seen(source)}")
    return wanted


def _all_functions() -> set[str]:
    return {function for exercise in BY_NAME.values() for function in exercise.functions}


def _seen(source: Source) -> str:
    """The functions found instead, and a suggestion."""
    for name in sorted(source.names):
        near = difflib.get_close_matches(name, sorted(_all_functions()), n=1, cutoff=0.75)
        if near:
            return f"got `{name}`; did you mean `{near[0]}`?"
    names = ", ".join(sorted(source.names)[:6]) or "no function at all"
    return f"such as softmax_forward and softmax_backward, got {names}; `npformer grade --list` names the exercises"


def refuse_answers(source: Source) -> None:
    """Raise DataError if the file imports a library that holds or computes the answer."""
    for name, line in imported(source.tree):
        if name.partition(".")[0] in BANNED:
            raise DataError(refusal(source, f"imports {name}", line))


def refusal(source: Source, what: str, line: int | None) -> str:
    """The message for something forbidden in a solution."""
    reason = (
        "an exercise is solved with NumPy only (`from parts import …` brings the exercises before it)"
        if what.startswith("imports") or "parts" in what or "npformer" in what
        else "a solution only computes; put experiments below `if __name__ == '__main__':`"
    )
    return f"{source.path}: it {what}: {reason}" + source.at(line, "\n  ")


def imported(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """(module, line) of every import, __import__("…") and import_module("…") included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module or "", node.lineno
        elif isinstance(node, ast.Call) and node.args and called(node) in ("__import__", "import_module"):
            name = node.args[0]
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                yield name.value, node.lineno
