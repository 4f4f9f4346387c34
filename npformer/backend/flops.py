"""How much an operation has to do at the least: flops of its matrix products, numbers moved to and from memory.

Both follow from the shapes of the forward's inputs alone; no kernel that computes the operation can do
with less, so they bound it from below, whoever wrote it.

    products   (M, K)·(K, N) takes 2·M·K·N flops. Each has two operands that want a gradient, so the
               backward's products take twice the forward's. What a causal mask hides is counted too,
               except in local attention, whose pairs are known to be few: those that padding could leave.
    numbers    forward: every input read once, every output written once. Backward: dy and the inputs
               that the derivative needs read, gradients written; a parameter's gradient is added to
               what is there, hence read and written. What stays inside (attention's weights, the wide
               layer of feed-forward, masks, which can be drawn again) need not move at all.

A token id counts as one number. Each operation's row in ``functional`` says what its backward needs and what its
products take, and where less moves: of a table the rows that are used, of dropout that drops nothing, nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from npformer.functional import OPERATIONS, Operation
from npformer.functional.operation import size


class Work(NamedTuple):
    """Of one call, or of several added up."""

    flops: float = 0.0
    numbers: float = 0.0  # moved; times the bytes of one number: bytes

    def plus(self, other: Work) -> Work:
        """Both together."""
        return Work(self.flops + other.flops, self.numbers + other.numbers)


NOTHING = Work()


def work_of(op: str, y: Any, inputs: tuple[Any, ...]) -> tuple[Work, Work]:
    """(forward's, backward's) work of the operation called op, given forward's output and inputs."""
    row = OPERATIONS[op]
    flops = row.flops(*inputs)
    forward, backward = row.moves(y, *inputs) if row.moves else _moved(row, y, inputs)
    return Work(flops, forward), Work(2 * flops, backward)


def _moved(row: Operation, y: Any, inputs: tuple[Any, ...]) -> tuple[int, int]:
    """Numbers that forward and backward move, if each input is read and written as a whole."""
    given = {name: x for name, x in zip(row.inputs, inputs, strict=False) if _is_of_numbers(x)}
    numbers = [x for name, x in given.items() if name not in row.ids.split()]
    outputs = size(*(y if isinstance(y, tuple) else (y,)))
    needed = size(*(given[name] for name in row.needs.split() if name in given))
    data, parameters = numbers[: len(numbers) - row.parameters], numbers[len(numbers) - row.parameters :]
    return size(*given.values()) + outputs, outputs + needed + size(*data) + 2 * size(*parameters)


def _is_of_numbers(x: Any) -> bool:
    return hasattr(x, "shape") and x.dtype.kind != "b"


def adam_work(numbers: int) -> Work:
    """One update of so many parameters: p, g, m, v are read, p, m, v are written."""
    return Work(0.0, 7 * numbers)
