"""Entries of the arrays in a pair's code: which expression, at which step of which frame; values are the code's own."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from npformer.proof.trace_lines import Frame

Index = tuple[int, ...]


class CannotExpand(Exception):
    """The line has a form that is not taken apart; the products are then found by the pair's own backward."""


@dataclass(eq=False)
class Run:
    """One run of a pair's function, and who called each frame in it."""

    root: Frame
    callers: dict[int, tuple[Frame, int]] = field(default_factory=dict)  # by the frame's id: (the caller, its step)

    def __post_init__(self) -> None:
        waiting = [self.root]
        while waiting:
            frame = waiting.pop()
            for number, step in enumerate(frame.steps):
                self.callers |= {id(inner): (frame, number) for inner in step.inside}
                waiting += step.inside


@dataclass(frozen=True)
class Spot:
    """An entry of an expression, at one step of a frame. part: which element, if the expression is a tuple."""

    run: Run
    frame: Frame
    step: int
    node: ast.expr
    index: Index
    part: int | None = None

    @property
    def text(self) -> str:
        """The entry as code: dy[0,2,5]."""
        shown = ast.unparse(self.node)
        shown = shown if isinstance(self.node, ast.Name | ast.Attribute | ast.Subscript) else f"({shown})"
        return f"{shown}[{','.join(map(str, self.index))}]" if self.index else shown

    @property
    def name(self) -> str:
        """Its name, if it is one."""
        return self.node.id if isinstance(self.node, ast.Name) else ""

    def of(self, node: ast.expr, index: Index, part: int | None = None) -> Spot:
        """The entry of another expression at the same step."""
        return Spot(self.run, self.frame, self.step, node, index, part)

    @property
    def caller(self) -> tuple[Frame, int] | None:
        """The frame that called this one, and the step that did; None for the outermost."""
        return self.run.callers.get(id(self.frame))

    def array(self) -> Any:
        """The value of the whole expression at this step."""
        scope = self.frame.globals | self.frame.steps[self.step].before
        code = compile(ast.Expression(self.node), self.frame.function.path, "eval")
        found = eval(code, scope)  # a line of the pair itself, which has just run
        return found if self.part is None else found[self.part]

    def value(self) -> float:
        """The number itself."""
        return float(np.asarray(self.array())[self.index])


def returned(run: Run, frame: Frame, gradient: int, index: Index) -> Spot:
    """The entry of one of the gradients that a backward returned."""
    last = len(frame.steps) - 1
    statement = frame.steps[last].node
    if not isinstance(statement, ast.Return) or statement.value is None:
        raise CannotExpand(f"{frame.function.name} returns nothing that is read")
    return Spot(run, frame, last, statement.value, index, gradient if isinstance(frame.returned, tuple) else None)


def called(spot: Spot) -> Frame | None:
    """The frame of the call that an expression is; None if it is no call, or of no kept function, or one of several."""
    if not isinstance(spot.node, ast.Call):
        return None
    calls = spot.frame.steps[spot.step].inside
    if not calls:
        return None
    try:
        function = spot.of(spot.node.func, ()).array()
    except Exception:  # a name of a comprehension, which has ended
        return None
    found = [each for each in calls if each.function.code is getattr(function, "__code__", None)]
    return found[0] if len(found) == 1 else None


def function_of(spot: Spot) -> str:
    """The name of the function that an expression calls; "" if it is no call."""
    if not isinstance(spot.node, ast.Call):
        return ""
    try:
        return getattr(spot.of(spot.node.func, ()).array(), "__name__", "")
    except Exception:
        return ""


def entry(x: Any, index: Index) -> Any:
    return np.asarray(x)[within(np.shape(x), index)]


def fitting(x: Any, index: Index) -> Index:
    """The index of the number that is broadcast to an index."""
    return within(np.shape(x), index)


def within(shape: tuple[int, ...], index: Index) -> Index:
    own = index[len(index) - len(shape) :] if shape else ()
    return tuple(0 if size == 1 else i for size, i in zip(shape, own, strict=True))
