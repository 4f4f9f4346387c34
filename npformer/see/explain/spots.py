"""Entries of the arrays in a pair's code: which expression, at which step of which frame; values are the code's own.

A spot may stand for many entries at once: then each part of its index is an array (E,), or an integer for all of them.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from npformer.see.record.lines import Frame

#: An integer or an array (E,) for each axis.
Index = tuple[Any, ...]
#: Functions of one number.
OF_ONE = {"exp", "log", "sqrt", "tanh", "sin", "cos", "erf"}


class CannotExpand(Exception):
    """The line has a form that is not taken apart; the products are then found by the pair's own backward."""


class Mixed(Exception):
    """The entries of a spot are not made in one way; is_first (E,) says which of them are made as the first is."""

    def __init__(self, is_first: Any) -> None:
        super().__init__("these entries are made in several ways")
        self.is_first = is_first


def alike(made_by: Any) -> Any:
    """What all entries of a spot have in common. Raises Mixed if they differ."""
    ways = np.asarray(made_by)
    first = ways.reshape(-1)[0]
    if not np.all(ways == first):
        raise Mixed(ways == first)
    return first.item()


@dataclass(eq=False)
class Run:
    """One run of a pair's function, and who called each frame in it."""

    root: Frame
    callers: dict[int, tuple[Frame, int]] = field(default_factory=dict)  # by the frame's id: (the caller, its step)
    depending: dict[tuple[int, int, str], bool] = field(default_factory=dict)  # by frame, step and name: on dy

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
        """The entry as code: dy[0,2,5]; of an expression each array with its own index: (p[0,2,5] - q[0,2,5])."""
        return self._written(self.index if all(isinstance(i, int) for i in self.index) else ())

    @property
    def label(self) -> str:
        """Its expression as code, without an index."""
        return self._written(())

    def _written(self, index: Index) -> str:
        text = ast.unparse(self._parts(self.node, index))
        return text if self.is_named or isinstance(self.node, ast.Call) else f"({text})"

    def _parts(self, node: ast.expr, index: Index) -> ast.expr:
        """An expression with its arrays' indices, without modules, and with sizes as numbers."""
        match node:
            case ast.BinOp(left, op, right):
                return ast.BinOp(self._parts(left, index), op, self._parts(right, index))
            case ast.UnaryOp(op, operand):
                return ast.UnaryOp(op, self._parts(operand, index))
            case ast.Call(args=[x]) if (name := ast.unparse(node.func).rpartition(".")[2]) in OF_ONE:
                return ast.Call(ast.Name(name), [self._parts(x, index)], [])
            case ast.Subscript(value=ast.Attribute(attr="shape")):
                return ast.Constant(self.value_of(node))
        at = within(np.shape(self.value_of(node)), index) if index else ()
        return ast.Name(f"{ast.unparse(node)}[{','.join(map(str, at))}]") if at else node

    @property
    def is_named(self) -> bool:
        """Whether its array has a name in the code."""
        return isinstance(self.node, ast.Name | ast.Attribute | ast.Subscript)

    @property
    def name(self) -> str:
        """Its name, if it is one."""
        return self.node.id if isinstance(self.node, ast.Name) else ""

    def of(self, node: ast.expr, index: Index) -> Spot:
        """The entry of another expression at the same step."""
        return Spot(self.run, self.frame, self.step, node, index)

    def value_of(self, node: ast.expr) -> Any:
        """The value of another expression at the same step."""
        return self.of(node, ()).array()

    def operand(self, node: ast.expr, index: Index) -> Spot:
        """The entry of another expression that is broadcast to an index."""
        return self.of(node, within(np.shape(self.value_of(node)), index))

    def keywords(self, call: ast.Call) -> dict[str, Any]:
        """The values of a call's keywords."""
        return {str(each.arg): self.value_of(each.value) for each in call.keywords}

    @property
    def caller(self) -> tuple[Frame, int] | None:
        """The frame that called this one, and the step that did; None for the outermost."""
        return self.run.callers.get(id(self.frame))

    def array(self) -> Any:
        """The value of the whole expression at this step."""
        scope = self.frame.globals | self.frame.steps[self.step].before
        code = compile(ast.Expression(self.node), self.frame.function.path, "eval")
        value = eval(code, scope)  # a line of the pair itself, which has just run
        return value if self.part is None else value[self.part]

    def value(self) -> Any:
        """The number itself; of many entries, their numbers (E,)."""
        found = np.asarray(self.array())[self.index]
        return float(found) if np.ndim(found) == 0 else found.astype(np.float64)


def returned(run: Run, frame: Frame, gradient: int, index: Index) -> Spot:
    """The entry of one of the gradients that a backward returned."""
    last = len(frame.steps) - 1
    statement = frame.steps[last].node
    if not isinstance(statement, ast.Return) or statement.value is None:
        raise CannotExpand(f"{frame.function.name} returns nothing that is read")
    return Spot(run, frame, last, statement.value, index, gradient if isinstance(frame.returned, tuple) else None)


def called(spot: Spot) -> Frame | None:
    """The frame of the call that an expression is; None if it is no call, or of no kept function, or one of several."""
    calls = spot.frame.steps[spot.step].inside
    code = getattr(_function(spot), "__code__", None) if calls else None
    called_here = [each for each in calls if each.function.code is code]
    return called_here[0] if len(called_here) == 1 else None


def function_of(spot: Spot) -> str:
    """The name of the function that an expression calls; "" if it is no call."""
    return getattr(_function(spot), "__name__", "")


def _function(spot: Spot) -> Any:
    """The function that an expression calls; None if it is no call, or a name of a comprehension, which has ended."""
    try:
        return spot.value_of(spot.node.func) if isinstance(spot.node, ast.Call) else None
    except Exception:
        return None


def call_of(run: Run, frame: Frame) -> tuple[Spot, ast.Call] | None:
    """The expression by which the caller called a frame; None for the outermost, or if that cannot be told."""
    caller, step = run.callers.get(id(frame), (None, 0))
    statement = None if caller is None else caller.steps[step].node
    for node in ast.walk(statement) if statement is not None else ():
        if caller is not None and isinstance(node, ast.Call):
            spot = Spot(run, caller, step, node, ())
            if called(spot) is frame:
                return spot, node
    return None


def within(shape: tuple[int, ...], index: Index) -> Index:
    """The index of the number of an array of this shape that is broadcast to an index."""
    last = index[len(index) - len(shape) :] if shape else ()
    return tuple(0 if size == 1 else i for size, i in zip(shape, last, strict=True))
