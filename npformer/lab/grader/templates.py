"""The files that learners fill in, made from the reference pairs: a complete forward and an empty backward."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

from npformer.errors import OutputError
from npformer.lab.grader.exercises import EXERCISES, Exercise
from npformer.lab.grader.parts import TEXTS, imports

GLOSSARY = """B batch        T query or target time     C model width, C = H·D
N tokens       S key or source time       H heads, D width of a head
V vocabulary   F feed-forward width"""


def template(exercise: Exercise) -> str:
    """The file to fill in."""
    number = EXERCISES.index(exercise) + 1
    asked = inspect.getdoc(exercise.backward) or ""
    opening = f"""Exercise {number} of {len(EXERCISES)}: {exercise.title}.

{textwrap.indent(exercise.formula, "    ")}

{textwrap.fill(f"{exercise.name}_forward is given; change it if you like, as long as it computes the same. Write {exercise.name}_backward, the derivative of exactly that forward:", 96)}

{textwrap.indent(asked, "    ")}

{textwrap.fill("Think first: " + exercise.read, 96)}

Shapes are written in these letters:

{textwrap.indent(GLOSSARY, "    ")}

Then: npformer grade {exercise.name}.py"""  # noqa: E501
    body = f'raise NotImplementedError("write {exercise.name}_backward")'
    return f'"""{opening}\n"""\n\n{pair_source(exercise, body)}\n'


def pair_source(exercise: Exercise, body: str | None = None) -> str:
    """The imports, the forward, and the backward with its own body or another one."""
    forward, backward = map(TEXTS.__getitem__, exercise.functions)
    return "\n\n\n".join([_imports(exercise, forward), forward, with_body(backward, body) if body else backward])


def answer(exercise: Exercise) -> str:
    """The derivation, from npformer's own docstring, and the backward in plain NumPy."""
    derivation = "\n\n\n".join(inspect.getdoc(import_module(name)) or "" for name in exercise.docs.split())
    return f"{derivation}\n\n\n{TEXTS[f'{exercise.name}_backward']}\n"


def parts_source(names: Iterable[str]) -> str:
    """The source of these functions of earlier exercises, with everything that they call, as one module."""
    wanted = set(names)
    text = "\n\n\n".join(text for name, text in TEXTS.items() if name in wanted)
    return f"{imports(text)}\n\n\n{text}\n"


def all_parts() -> str:
    """Every part, for a learner who wants to run an exercise without the grader."""
    names = {name for exercise in EXERCISES for name in exercise.available}
    return f'"""The solved exercises before yours, for `from parts import …`."""\n\n{parts_source(names)}'


def write_new(path: Path, text: str) -> None:
    """Write a new file. Raises OutputError if it exists, or if it cannot be written."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise OutputError(
            f"{path}: it exists, and nothing is ever overwritten; move it away, or name another file, such as "
            f"{path.with_stem(path.stem + '_2')}"
        ) from None
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror}; choose another folder") from error


def with_body(text: str, body: str) -> str:
    """The text of a function with another body, its docstring kept."""
    (function,) = ast.parse(text).body
    assert isinstance(function, ast.FunctionDef)  # the parts are functions
    return "\n".join([*text.splitlines()[: function.body[0].end_lineno], f"    {body}"])


def _imports(exercise: Exercise, forward: str) -> str:
    """The file's imports: NumPy, what else the forward uses, and the parts."""
    if not exercise.parts:
        return imports(forward)
    listed = "".join(f"    {name},\n" for name in exercise.parts)
    note = "# the grader brings parts; to run this file yourself: npformer grade parts.py --template parts\n"
    return f"{imports(forward)}\n\n{note}from parts import (\n{listed})"
