"""Hints for errors that match no typical mistake: by exercise and gradient, and by kind of error.

Each has three levels: a question that leads to the idea; the missing part; almost the line of code.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from npformer.check.diagnosis.mutants import Mutant
from npformer.lab.grader.exercises import HINTS, Exercise

Hints = Sequence[str]
SHAPES = ("shape", "mismatch", "broadcast", "dimension", "axis", "size")  # words of errors of shapes


def told(kind: str, **words: Any) -> Hints:
    """The hints for a kind of error, with the words that they lack."""
    return [text.format(**words) for text in HINTS[kind]]


def for_gradient(exercise: Exercise, gradient: str) -> Hints:
    """The hints for a gradient of an exercise, whatever the error."""
    name, _, inner = gradient.partition(".")
    found = exercise.hints.get(name) or exercise.hints.get("*") or ("parts" if inner else "undo")
    hints: Hints = HINTS[found] if isinstance(found, str) else found
    return hints


def for_mutant(mutant: Mutant, gradient: str) -> Hints:
    """The hints for a gradient that equals that of a mutant of the reference."""
    question, named = HINTS["operators"][mutant.operator]
    if mutant.operator == "drop a term" and mutant.before.startswith(f"{mutant.after} + "):
        named = f"One term of a sum is missing: what --answer calls `{mutant.before[len(mutant.after) + 3 :]}`."
    line = f"In the words of --answer: where `{mutant.before}` belongs, yours does what `{mutant.after}` would."
    if "." in gradient:  # in a whole layer, the place of the error is half the answer
        question = f"Coming from the output, {gradient} is the first gradient to be wrong. {question}"
    return question, named, line


def for_forward(exercise: Exercise) -> Hints:
    """The hints for a forward that computes something else."""
    lines = exercise.formula.replace("   ", "\n").split("\n")
    return told("forward", name=exercise.name, formula=" ; ".join(line.strip() for line in lines if line.strip()))


def for_error(failure: dict[str, Any], line: str, exercise: Exercise) -> Hints:
    """The hints for an exception in the learner's code; line is the line at which it stopped."""
    names, message = exercise.gradients, failure["message"]
    near = next((name for name in names if re.search(rf"(^|\W){name}(\W|$)", line)), names[-1])
    last = for_gradient(exercise, near)[2] if failure["step"] == "backward" else "Compare with the template's forward."
    single = re.search(r"\((\w+),\) = (\w+_backward)\(", line)
    name, call = single.groups() if single else ("", "")
    kind = "shapes" if any(word in message for word in SHAPES) else "error"
    if "unpack" in message:
        kind = "one of one" if single else "unpack"
    if failure["type"] == "MemoryError":
        kind = "memory"
    return told(kind, message=message, near=near, of=near[1:], last=last, name=name, call=call)
