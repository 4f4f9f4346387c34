"""Reads and parses a learner's file before it runs; finds its functions and forbidden imports."""

from __future__ import annotations

import ast
import difflib
import warnings
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from npformer.errors import DataError
from npformer.io.printable import visible
from npformer.lab.grader.exercises import EXERCISES, Exercise, find

LARGEST = 1_000_000  # bytes of source

#: Libraries that hold the answer or compute it: refused when they are imported.
BANNED = (
    "npformer", "torch", "torchvision", "jax", "jaxlib", "flax", "haiku", "equinox", "tensorflow", "keras", "autograd",
    "theano", "aesara", "pytensor", "mxnet", "paddle", "chainer", "tinygrad", "micrograd", "mindspore", "mlx",
    "casadi", "numdifftools", "thinc",
)  # fmt: skip


@dataclass(frozen=True)
class LearnerFile:
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


def read_source(path: Path) -> LearnerFile:
    """Read and parse a learner's file. Raises DataError if it is missing, no text, or not Python."""
    try:
        if path.stat().st_size > LARGEST:
            raise DataError(f"{path}: expected a Python file of at most {LARGEST:,} bytes; is it the right file?")
        text = path.read_bytes().decode("utf-8-sig")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the warning "invalid escape sequence" appears when the file runs
            tree = ast.parse(text, str(path))
    except FileNotFoundError:
        hint = "`npformer grade --template softmax` writes one to fill in, --list shows all"
        raise DataError(f"{path}: no such file; {hint}") from None
    except OSError as error:
        raise DataError(f"{path}: expected a readable Python file, got: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: expected a Python file in UTF-8, got an invalid byte at {error.start}") from None
    except SyntaxError as error:
        raise DataError(f"{path}: Python cannot read it\n{_marked(error)}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise DataError(f"{path}: Python cannot read it: {error}") from None
    return LearnerFile(path, text, tree, frozenset(_names(tree.body)))


def _marked(error: SyntaxError) -> str:
    """Line, caret and reason of a syntax error."""
    line = (error.text or "").rstrip("\n").replace("\t", " ")
    before = visible(line[: max(error.offset or 1, 1) - 1])
    place = f"  line {error.lineno}: {error.msg}"
    if not line.strip():
        return place
    return f"{place}\n    {visible(line)}\n    {' ' * len(before)}^"


def _names(body: Sequence[ast.stmt]) -> Iterator[str]:
    """The names that the top level binds: functions, assignments, imports, also below if and try."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.If | ast.Try | ast.With):
            yield from _names([n for n in ast.iter_child_nodes(node) if isinstance(n, ast.stmt)])
        elif isinstance(node, ast.ImportFrom) and node.module != "parts":
            yield from (alias.asname or alias.name for alias in node.names)
        else:
            yield from (n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))


def exercises_in(source: LearnerFile, forced: str | None = None) -> list[Exercise]:
    """The exercises whose pairs a file defines, in teaching order, or only the forced one.

    Raises DataError if there is none, or half of one; ConfigError if the forced one does not exist.
    """
    wanted = [find(forced)] if forced else [e for e in EXERCISES if source.names.intersection(e.functions)]
    functions = {function for exercise in EXERCISES for function in exercise.functions}
    for exercise in wanted:
        missing = sorted(set(exercise.functions) - source.names)
        if missing:
            near = _near(missing[0], source.names - functions)
            more = f"is `{near}` meant to be it?" if near else f"`npformer grade --template {exercise.name}` shows both"
            expected = f"expected {' and '.join(exercise.functions)}, a pair"
            raise DataError(f"{source.path}: {expected}, got no {' and no '.join(missing)}; {more}")
    if not wanted:
        raise DataError(f"{source.path}: expected the functions of an exercise, {_seen(source, functions)}")
    return wanted


def _near(name: str, names: Set[str]) -> str:
    """The name that it may be meant to be, or none."""
    return "".join(difflib.get_close_matches(name, sorted(names), n=1, cutoff=0.75))


def _seen(source: LearnerFile, functions: Set[str]) -> str:
    """The functions found instead, and a suggestion."""
    for name in sorted(source.names):
        near = _near(name, functions)
        if near:
            return f"got `{name}`; did you mean `{near}`?"
    names = ", ".join(sorted(source.names)[:6]) or "no function at all"
    return f"such as softmax_forward and softmax_backward, got {names}; `npformer grade --list` names the exercises"


def refusal(source: LearnerFile, what: str, line: int | None) -> str:
    """The message for something forbidden in a solution."""
    reason = (
        "an exercise is solved with NumPy only (`from parts import …` brings the exercises before it)"
        if what.startswith("imports") or "parts" in what or "npformer" in what
        else "a solution only computes; put experiments below `if __name__ == '__main__':`"
    )
    return f"{source.path}: it {what}: {reason}" + source.at(line, "\n  ")
