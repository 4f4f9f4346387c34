"""Entries of the arrays in a pair's code, and where each is from: through names, moves, calls, arguments and choices.

A ``Spot`` is an entry of an expression at one step of a frame; values are the code's own. It may stand for many entries
at once: then each part of its index is an array (E,), or an integer for all of them. A line that moves numbers (a
transpose, a slice, rows out of tokens) is followed to the entry it was moved from, a call into the function that it
calls, an argument to the caller's expression.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from npformer.see.record.lines import Frame

#: An integer or an array (E,) for each axis.
Index = tuple[Any, ...]
#: Functions of one number.
OF_ONE = {"exp", "log", "sqrt", "tanh", "sin", "cos", "erf"}
#: Functions of one array that only move its numbers.
MOVES = {
    "reshape", "permute_dims", "transpose", "matrix_transpose", "as_rows", "swapaxes", "squeeze", "expand_dims", "take",
    "broadcast_to",
}  # fmt: skip
#: Functions that hand on their first argument's numbers as they are.
_SAME = {"astype", "real_part"}
#: Functions that look at an array's shape, type or place, and at none of its numbers.
_OF_SHAPES = {"namespace", "device_of", "zeros_like", "ones_like", "full_like"}
_NOT_SET = -1
JOINS = {"concat", "concatenate", "stack"}


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
class PairRun:
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

    run: PairRun
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


def returned(run: PairRun, frame: Frame, gradient: int, index: Index) -> Spot:
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


def call_of(run: PairRun, frame: Frame) -> tuple[Spot, ast.Call] | None:
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


def settled(spot: Spot) -> Spot:
    """The expression that computes a number, through names, moves, calls and choices."""
    for _ in range(1000):
        following = definition(spot) or _through_call(spot) or _through_move(spot) or choice(spot)
        if following is None:
            return spot
        spot = following
    raise CannotExpand(f"{spot.text}: no end was found")


def upstream_part(spot: Spot) -> int | None:
    """Of which of the pair's upstream gradients a settled spot is an entry: 0 if there is one; None: of none."""
    if spot.caller is not None or not isinstance(spot.node, ast.Name):
        return None
    first, assignment = next(iter(spot.frame.arguments)), _assigned(spot.frame, spot.step, spot.name)
    if assignment is None:
        return 0 if spot.name == first else None
    _, node, part = assignment
    return part if isinstance(node, ast.Name) and node.id == first else None


def shown_as(spot: Spot) -> Spot:
    """The same number under the name of the array of which it is moved here, or that the caller has for it."""
    shown = spot
    while (following := _through_move(spot) or _renamed(spot)) is not None:
        spot = following
        shown = spot if spot.is_named or not shown.is_named else shown
    return shown


def _roots(node: ast.AST) -> set[str]:
    """The names in an expression, without those of which it only reads the shape."""
    if isinstance(node, ast.Attribute) and node.attr in ("shape", "ndim", "dtype"):
        return set()
    if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in _OF_SHAPES:
        return set()
    roots = {node.id} if isinstance(node, ast.Name) else set()
    return roots.union(*(_roots(inner) for inner in ast.iter_child_nodes(node)))


def definition(spot: Spot) -> Spot | None:
    """Where a name got its value: an earlier statement, or an argument of the call."""
    if isinstance(spot.node, ast.Tuple) and spot.part is not None:
        return spot.of(spot.node.elts[spot.part], spot.index)
    if not isinstance(spot.node, ast.Name):
        return None
    assignment = _assigned(spot.frame, spot.step, spot.node.id)
    if assignment is not None:
        step, node, part = assignment
        if part is not None and isinstance(node, ast.Tuple):
            node, part = node.elts[part], None
        if part is not None and spot.part is not None:
            raise CannotExpand(f"{spot.text}: a tuple in a tuple")
        before = Spot(spot.run, spot.frame, step, node, spot.index, spot.part if part is None else part)
        return before if part is None or called(before) is not None else None
    return _argument(spot)


def _assigned(frame: Frame, step: int, name: str) -> tuple[int, ast.expr, int | None] | None:
    """(step, expression, part of it) of the last assignment to a name before a step; None: there is none to read."""
    for number in range(step - 1, -1, -1):
        statement = frame.steps[number].node
        if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
            if statement.target.id == name:
                left = ast.copy_location(ast.Name(name, ast.Load()), statement)
                return number, ast.copy_location(ast.BinOp(left, statement.op, statement.value), statement), None
            continue
        value = getattr(statement, "value", None)
        for target in getattr(statement, "targets", [getattr(statement, "target", None)]):
            part = _part_of(target, name)
            if part != _NOT_SET:
                return None if value is None else (number, value, part)
    return None


def _part_of(target: ast.expr | None, name: str) -> int | None:
    """Which part of a value an assignment gives to a name: None for the whole, _NOT_SET if it gives it none."""
    if isinstance(target, ast.Name):
        return None if target.id == name else _NOT_SET
    names = [getattr(each, "id", "") for each in target.elts] if isinstance(target, ast.Tuple) else []
    return names.index(name) if name in names else _NOT_SET


def _argument(spot: Spot) -> Spot | None:
    """The caller's expression for an argument."""
    place_and_call = call_of(spot.run, spot.frame) if spot.name in spot.frame.arguments else None
    if place_and_call is None:
        return None
    at, call = place_and_call
    place = list(spot.frame.arguments).index(spot.name)
    arguments = dict(enumerate(call.args)) | {each.arg: each.value for each in call.keywords}
    node = arguments.get(place, arguments.get(spot.name))
    return None if node is None else replace(at, node=node, index=spot.index, part=spot.part)


def _through_call(spot: Spot) -> Spot | None:
    frame = called(spot)
    return None if frame is None else replace(returned(spot.run, frame, 0, spot.index), part=spot.part)


def choice(spot: Spot) -> Spot | None:
    """The branch that ``where``, or Python's if, took at this entry."""
    if isinstance(spot.node, ast.IfExp):
        return replace(spot, node=spot.node.body if spot.value_of(spot.node.test) else spot.node.orelse)
    if function_of(spot) != "where" or spot.part is not None:
        return None
    condition, chosen, other = spot.node.args  # type: ignore[attr-defined]
    taken = alike(np.asarray(spot.operand(condition, spot.index).value()) != 0)
    return spot.operand(chosen if taken else other, spot.index)


def _through_move(spot: Spot) -> Spot | None:
    """The entry from which a move took this one."""
    node, name = spot.node, function_of(spot)
    if spot.part is not None:
        return None
    if isinstance(node, ast.Subscript):
        key = spot.value_of(node.slice)
        has_shape = hasattr(spot.value_of(node.value), "shape")
        return _moved_from(spot, [node.value], lambda ids: ids[key]) if has_shape else None
    if not isinstance(node, ast.Call):
        return None
    if name in _SAME:
        return spot.operand(node.args[0], spot.index)
    if name == "max":
        return _moved_from(spot, node.args[:1], _largest(spot.value_of(node.args[0]), **spot.keywords(node)))
    joined = node.args[0].elts if name in JOINS and isinstance(node.args[0], ast.List) else None
    if (joined is None and name not in MOVES) or any(isinstance(part, ast.Starred) for part in joined or ()):
        return None
    function, named = spot.value_of(node.func), spot.keywords(node)
    others = [spot.value_of(each) for each in node.args[1:]]
    if joined is None:
        return _moved_from(spot, node.args[:1], lambda ids: function(ids, *others, **named))
    return _moved_from(spot, joined, lambda *ids: function(ids, *others, **named))


def _moved_from(spot: Spot, sources: Sequence[ast.expr], move: Callable[..., Any]) -> Spot:
    """The entry of one of these expressions that the move of all of them brings here."""
    shapes = [np.shape(spot.value_of(each)) for each in sources]
    starts = np.cumsum([0, *map(prod, shapes)])
    ids = [start + np.arange(prod(shape)).reshape(shape) for start, shape in zip(starts, shapes, strict=False)]
    place = move(*ids)[spot.index]
    which = alike(np.searchsorted(starts, place, "right")) - 1
    at = np.unravel_index(place - starts[which], shapes[which])
    return spot.of(sources[which], tuple(int(i) if np.ndim(i) == 0 else i for i in at))


def _largest(x: Any, axis: int, keepdims: bool = False) -> Callable[..., Any]:
    """Takes the entries that a maximum over one axis is."""
    places = np.argmax(x, axis=axis, keepdims=True)

    def move(ids: Any) -> Any:
        taken = np.take_along_axis(ids, places, axis=axis)
        return taken if keepdims else np.squeeze(taken, axis=axis)

    return move


def _renamed(spot: Spot) -> Spot | None:
    """The array of which a name is only a move, or which the caller calls by another name."""
    if not isinstance(spot.node, ast.Name) or spot.part is not None:
        return None
    source = definition(spot)
    if source is None:
        return None
    if source.frame is not spot.frame:
        return source if isinstance(source.node, ast.Name) else None
    return source if source.part is None and _through_move(source) is not None else None


def depends(spot: Spot) -> bool:
    """Whether an expression has the upstream gradient of the pair in it."""
    if isinstance(spot.node, ast.Name):
        known, key = spot.run.depending, (id(spot.frame), spot.step, spot.name)
        if key not in known:
            known[key] = _name_depends(spot)
        return known[key]
    return any(depends(spot.of(ast.Name(name, ast.Load()), ())) for name in _roots(spot.node))


def _name_depends(spot: Spot) -> bool:
    value = spot.frame.steps[spot.step].before.get(spot.name)
    if not isinstance(value, np.ndarray | np.generic | float | list | tuple):  # a module, a size or a dtype
        return False
    is_upstream = spot.caller is None and spot.name == next(iter(spot.frame.arguments))
    return (is_upstream and _assigned(spot.frame, spot.step, spot.name) is None) or _defined_with(spot)


def _defined_with(spot: Spot) -> bool:
    for number in range(spot.step):  # a list that was filled
        match spot.frame.steps[number].node:
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[added])):
                if name == spot.name and depends(Spot(spot.run, spot.frame, number, added, ())):
                    return True
    assignment = _assigned(spot.frame, spot.step, spot.name)
    if assignment is not None:
        return depends(Spot(spot.run, spot.frame, assignment[0], assignment[1], ()))
    argument = _argument(spot)
    return argument is not None and depends(argument)
