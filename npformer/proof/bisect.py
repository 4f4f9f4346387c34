"""Finds the first wrong part of a model with a wrong gradient.

The forward runs once, and every call of a layer or an operation is recorded with its inputs and its
caller. Then the calls are checked from the outside in: if a call's gradient is right, everything inside
it is right; if it is wrong, the calls inside it are checked in backward order (last call first).
The path ends at an operation, or at a layer whose parts are all right, so that the layer combines them
wrongly.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Any

from npformer.errors import ConfigError
from npformer.layers import Layer
from npformer.proof.check import gradcheck
from npformer.proof.connections import wrong_connection
from npformer.proof.listening import Call, listening
from npformer.proof.report import WRONG, Report
from npformer.proof.subject import subject


def check_of(call: Call, explain: bool = False, complex_step: bool = True) -> Report:
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


@dataclass(frozen=True)
class Bisection:
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
        call, report = self.path[-1]
        wrong = sum(row.verdict == WRONG for row in self.path[0][1].rows)
        lines = _filled(f"one cause of {wrong} wrong gradients: {call.name}", columns) if wrong > 1 else []
        for depth, (call, report) in enumerate(self.path):
            wrong = sum(row.verdict == WRONG for row in report.rows)
            lines += _filled(f"{call.name}: {wrong} of {len(report.rows)} gradients wrong", columns, "  " * depth)
        lines += ["", *_filled(f"the first wrong part is {call.name}:", columns), *report.lines(columns)]
        if call.parts:
            lines.append("all of its parts are right: it puts them together wrongly")
            lines += _filled(self.connection, columns)
        return lines


def _filled(text: str, columns: int, margin: str = "") -> list[str]:
    return textwrap.wrap(
        text, columns, initial_indent=margin, subsequent_indent=margin + "    ", break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


def bisect(target: Layer, *inputs: Any, complex_step: bool = True, **options: Any) -> Bisection:
    """Find the first wrong part of a layer or model, its forward called with these inputs and options.

    complex_step as for gradcheck. target is not changed. Raises ConfigError for anything but a layer.
    """
    if not isinstance(target, Layer):
        raise ConfigError(
            f"target: expected a layer or model, which has parts, got {type(target).__name__}; use npf.gradcheck"
        )
    checked = subject(target, inputs, options, target.backend.device)
    with checked.at_its_point() as placed, listening(target) as ear:
        target.forward(*placed, **options)
    path: list[tuple[Call, Report]] = []
    connection = ""
    if _descend(ear.calls[0], path, complex_step):
        call, _ = path.pop()
        path.append((call, check_of(call, explain=True, complex_step=complex_step)))
        with checked.at_its_point():
            connection = wrong_connection(call) if call.parts else ""
    return Bisection(tuple(path), connection)


def _descend(call: Call, path: list[tuple[Call, Report]], complex_step: bool) -> bool:
    """Add call, and the first wrong part in it, to the path if its gradient is wrong; returns whether it is."""
    report = check_of(call, complex_step=complex_step)
    if all(row.verdict != WRONG for row in report.rows):
        return False
    path.append((call, report))
    any(_descend(part, path, complex_step) for part in reversed(call.parts))  # stops at the first wrong one
    return True
