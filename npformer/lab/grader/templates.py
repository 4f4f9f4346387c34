"""The files that learners fill in, made from the reference pairs: a complete forward and an empty backward."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

from npformer.errors import OutputError
from npformer.lab.grader.exercises import EXERCISES, Exercise
from npformer.lab.grader.parts import FUNCTIONS

GLOSSARY = """B batch        T query or target time     C model width, C = H·D
N tokens       S key or source time       H heads, D width of a head
V vocabulary   F feed-forward width"""


def template(exercise: Exercise) -> str:
    """The file to fill in."""
    number = EXERCISES.index(exercise) + 1
    asked = textwrap.dedent(inspect.getdoc(exercise.backward) or "")
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
    return "\n\n\n".join([_imports(exercise), _plain(exercise.forward), _plain(exercise.backward, body)])


def answer(exercise: Exercise) -> str:
    """The derivation, from npformer's own docstring, and the backward in plain NumPy."""
    derivation = "\n\n\n".join(inspect.getdoc(import_module(name)) or "" for name in exercise.docs.split())
    return f"{derivation}\n\n\n{_plain(exercise.backward)}\n"


def parts_source(names: Iterable[str]) -> str:
    """The source of these functions of earlier exercises, with everything that they call, as one module."""
    wanted = set(names)
    texts = [_plain(function) for name, function in FUNCTIONS.items() if name in wanted]
    return "import math\n\nimport numpy as np\n\n\n" + "\n\n\n".join(texts) + "\n"


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


def _plain(function: Callable[..., Any], body: str | None = None) -> str:
    """A function's source without annotations; with another body, its docstring kept."""
    source = textwrap.dedent(inspect.getsource(function))
    node = ast.parse(source).body[0]
    assert isinstance(node, ast.FunctionDef)  # the parts are functions
    for argument in node.args.args:
        argument.annotation = None
    first = node.body[0]
    start, end = first.lineno, (first.end_lineno or first.lineno)
    lines = source.splitlines()
    kept = [*lines[start - 1 : end], f"    {body}"] if body else lines[start - 1 :]
    return "\n".join([f"def {node.name}({ast.unparse(node.args)}):", *kept])


def _imports(exercise: Exercise) -> str:
    """The file's imports: math where the forward uses it, NumPy, and the parts."""
    math = "import math\n\n" if "math." in inspect.getsource(exercise.forward) else ""
    if not exercise.parts:
        return f"{math}import numpy as np"
    listed = "".join(f"    {name},\n" for name in exercise.parts)
    note = "# the grader brings parts; to run this file yourself: npformer grade parts.py --template parts\n"
    return f"{math}import numpy as np\n\n{note}from parts import (\n{listed})"
