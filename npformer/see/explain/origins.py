"""Where an entry is from: through names, moves of numbers, calls, arguments and choices.

A line that moves numbers (a transpose, a slice, rows out of tokens) is followed to the entry it was moved from, a call
into the function that it calls, an argument to the caller's expression.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from npformer.see.explain.spots import CannotExpand, Index, Spot, alike, call_of, called, function_of, returned
from npformer.see.record.lines import Frame

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


def settled(spot: Spot) -> Spot:
    """The expression that computes a number, through names, moves, calls and choices."""
    for _ in range(1000):
        following = _definition(spot) or _through_call(spot) or _through_move(spot) or choice(spot)
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


def _roots(node: ast.AST, numbers: bool = False) -> set[str]:
    """The names in an expression; numbers: without those of which it only reads the shape."""
    if numbers and isinstance(node, ast.Attribute) and node.attr in ("shape", "ndim", "dtype"):
        return set()
    if numbers and isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in _OF_SHAPES:
        return set()
    roots = {node.id} if isinstance(node, ast.Name) else set()
    return roots.union(*(_roots(inner, numbers) for inner in ast.iter_child_nodes(node)))


def _definition(spot: Spot) -> Spot | None:
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
        return _moved_from(spot, node.value, lambda ids: ids[key]) if has_shape else None
    if name in MOVES and isinstance(node, ast.Call):
        function, named = spot.value_of(node.func), spot.keywords(node)
        others = [spot.value_of(each) for each in node.args[1:]]
        return _moved_from(spot, node.args[0], lambda ids: function(ids, *others, **named))
    if name in _SAME and isinstance(node, ast.Call):
        return spot.operand(node.args[0], spot.index)
    if name == "max" and isinstance(node, ast.Call):
        return _largest_from(spot, node)
    if name in JOINS and isinstance(node, ast.Call) and isinstance(node.args[0], ast.List):
        return _joined_from(spot, node)
    return None


def _moved_from(spot: Spot, source: ast.expr, move: Any) -> Spot:
    shape = np.shape(spot.value_of(source))
    return spot.of(source, _unravelled(move(np.arange(prod(shape)).reshape(shape))[spot.index], shape))


def _unravelled(place: Any, shape: Index) -> Index:
    """The index of a place in a flat array, or of an array of places."""
    return tuple(int(i) if np.ndim(i) == 0 else i for i in np.unravel_index(place, shape))


def _largest_from(spot: Spot, node: ast.Call) -> Spot:
    """The entry that a maximum over one axis is."""
    x, named = np.asarray(spot.value_of(node.args[0])), spot.keywords(node)
    places = np.argmax(x, axis=named["axis"], keepdims=True)

    def move(ids: Any) -> Any:
        taken = np.take_along_axis(ids, places, axis=named["axis"])
        return taken if named.get("keepdims") else np.squeeze(taken, axis=named["axis"])

    return _moved_from(spot, node.args[0], move)


def _joined_from(spot: Spot, node: ast.Call) -> Spot | None:
    parts = node.args[0].elts  # type: ignore[attr-defined]
    if any(isinstance(part, ast.Starred) for part in parts):
        return None
    shapes = [np.shape(spot.value_of(part)) for part in parts]
    starts = np.cumsum([0, *(prod(shape) for shape in shapes)])
    ids = [start + np.arange(prod(shape)).reshape(shape) for start, shape in zip(starts, shapes, strict=False)]
    place = spot.value_of(node.func)(ids, **spot.keywords(node))[spot.index]
    which = alike(np.searchsorted(starts, place, "right")) - 1
    return spot.of(parts[which], _unravelled(place - starts[which], shapes[which]))


def _renamed(spot: Spot) -> Spot | None:
    """The array of which a name is only a move, or which the caller calls by another name."""
    if not isinstance(spot.node, ast.Name) or spot.part is not None:
        return None
    definition = _definition(spot)
    if definition is None:
        return None
    if definition.frame is not spot.frame:
        return definition if isinstance(definition.node, ast.Name) else None
    return definition if definition.part is None and _through_move(definition) is not None else None


def depends(spot: Spot) -> bool:
    """Whether an expression has the upstream gradient of the pair in it."""
    if isinstance(spot.node, ast.Name):
        known, key = spot.run.depending, (id(spot.frame), spot.step, spot.name)
        if key not in known:
            known[key] = _name_depends(spot)
        return known[key]
    return any(depends(spot.of(ast.Name(name, ast.Load()), ())) for name in _roots(spot.node, numbers=True))


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
