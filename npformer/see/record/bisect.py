"""Finds the first wrong part of a model with a wrong gradient.

The forward runs once, and every call of a layer or an operation is recorded with its inputs and its
caller. Then the calls are checked from the outside in: if a call's gradient is right, everything inside
it is right; if it is wrong, the calls inside it are checked in backward order (last call first).
The path ends at an operation, or at a layer whose parts are all right, so that the layer combines them
wrongly.

Then backward runs once more, and the gradient that the layer passes to the backward of each part is recorded. The true
gradient is the slope of L = Σ r·y along that part's output, by the complex step: the forward runs again with the output
moved. Parts are examined in backward order, so the first part that gets a wrong gradient names the connection.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from npformer.check.check import gradcheck
from npformer.check.inputs import as_tuple
from npformer.check.oracles import COMPLEX_H
from npformer.check.report import Report
from npformer.check.subject import Subject
from npformer.errors import ConfigError
from npformer.io.notebook import Displayed
from npformer.io.terminal import fill
from npformer.layers import Layer
from npformer.see.record.calls import Call, Moving, listening
from npformer.see.record.recording import Recording, Setting, session

#: Relative to the sum of the sizes of its terms: a larger difference between slope and gradient is an error.
TOLERANCE = 1e-9


def check_of(call: Call, complex_step: bool, explain: bool = False) -> Report:
    """The gradient check of a single call at its recorded inputs; quick, or in full."""
    return gradcheck(
        call.target,
        *call.inputs,
        name=call.name,
        elementwise=None if explain else False,
        explain=explain,
        complex_step=complex_step,
        allow_length_one=True,
        **call.options,
    )


@dataclass(frozen=True, repr=False)
class Bisection(Displayed):
    """The calls from the whole to the first wrong part, outermost first, with reports; empty if all are right."""

    path: tuple[tuple[Call, Report], ...]
    connection: str = ""  # for a layer whose parts are all right: the part that gets a wrong gradient from it

    @property
    def ok(self) -> bool:
        """Whether every gradient is right."""
        return not self.path

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self, columns: int = 80) -> list[str]:
        """The way to the first wrong part, and its report, in so many columns, 60 or more; a longer name stands out."""
        if self.ok:
            return ["every gradient is right: there is nothing to look for"]

        def filled(text: str, depth: int = 0) -> list[str]:
            margin = "  " * depth
            return fill(text, columns, margin, margin + "    ").split("\n")

        (last, report), wrong = self.path[-1], len(self.path[0][1].wrong)
        lines = filled(f"one cause of {wrong} wrong gradients: {last.name}") if wrong > 1 else []
        for depth, (call, its_report) in enumerate(self.path):
            lines += filled(f"{call.name}: {len(its_report.wrong)} of {len(its_report.rows)} gradients wrong", depth)
        lines += ["", *filled(f"the first wrong part is {last.name}:"), *report.lines(columns)]
        if last.parts:
            lines.append("all of its parts are right: it puts them together wrongly")
            lines += filled(self.connection) if self.connection else []
        return lines


def bisect(target: Layer, *inputs: Any, complex_step: bool = True, **options: Any) -> Bisection:
    """Find the first wrong part of a layer or model, its forward called with these inputs and options.

    complex_step as for gradcheck. target is not changed. Raises ConfigError for anything but a layer.
    """
    if not isinstance(target, Layer):
        raise ConfigError(
            f"target: expected a layer or model, which has parts, got {type(target).__name__}; use npf.gradcheck"
        )
    checked = Subject(target, inputs, options, target.backend.device)
    with checked.at_its_point() as placed, listening(target) as recorder:
        target.forward(*placed, **options)
    path: list[tuple[Call, Report]] = []
    connection = ""
    if _descend(recorder.calls[0], path, complex_step):
        call, _ = path.pop()
        path.append((call, check_of(call, complex_step, explain=True)))
        with checked.at_its_point():
            connection = wrong_connection(call) if call.parts else ""
    return Bisection(tuple(path), connection)


def _descend(call: Call, path: list[tuple[Call, Report]], complex_step: bool) -> bool:
    """Add call, and the first wrong part in it, to the path if its gradient is wrong; returns whether it is."""
    report = check_of(call, complex_step)
    if not report.wrong:
        return False
    path.append((call, report))
    any(_descend(part, path, complex_step) for part in reversed(call.parts))  # stops at the first wrong one
    return True


def wrong_connection(call: Call) -> str:
    """One sentence, on the call of a layer; "" for one that is not on NumPy or refuses complex numbers."""
    try:
        with session(Setting(call.name, call.target, call.inputs, call.options)) as recording:
            whole, *inside = recording.calls
            for part in (part for part in reversed(inside) if part.parent is whole):
                sentence = _wrongly_handed(part, recording)
                if sentence:
                    return sentence
    except (TypeError, ValueError, AttributeError, np.exceptions.ComplexWarning):
        return ""
    return "the gradients that it passes to them are right: it combines their results wrongly"


def _wrongly_handed(part: Call, recording: Recording) -> str:
    """A sentence if the part gets a gradient that is not its output's; "" if it is right."""
    seen, rng = recording.seen[part.number], np.random.default_rng(8)
    if seen.upstream is None:
        return f"its backward never calls that of {part.name}, or with another cache"
    for which, (y, dy) in enumerate(zip(as_tuple(seen.output), as_tuple(seen.upstream), strict=True)):
        if dy is None:
            continue
        direction = np.asarray(rng.normal(size=np.shape(y)))
        moved = recording.value({}, Moving(part.number, which, 1j * COMPLEX_H * direction))
        slope, claimed = float(np.imag(moved)) / COMPLEX_H, float(np.sum(dy * direction))
        size = float(np.sum(np.abs(dy * direction))) + abs(slope)
        if not abs(claimed - slope) <= TOLERANCE * size:
            return (
                f"the gradient that it passes to {part.name} is wrong: {claimed:.4g} along a direction, but the slope "
                f"is {slope:.4g}; the gradients that it passes on before are right"
            )
    return ""
