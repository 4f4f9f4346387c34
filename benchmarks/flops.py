"""The least work of an operation: flops of its matrix products, and numbers moved to and from memory.

Both follow only from the shapes of the forward's inputs. No kernel that computes the operation can do
with less, so they are a lower bound for every implementation.

    products   (M, K)·(K, N) takes 2·M·K·N flops. Each has two operands that want a gradient, so the
               backward's products take twice the forward's. What a causal mask hides is counted too,
               except in local attention, whose pairs are known to be few: those that padding could leave.
    numbers    forward: every input read once, every output written once. Backward: dy and the inputs
               that the derivative needs are read, gradients are written; a parameter's gradient is
               accumulated, hence read and written. Intermediate arrays (attention's weights, the wide
               layer of feed-forward, masks, which can be drawn again) need not move at all.

A token id counts as one number. Each operation's row in ``functional`` lists the inputs of its backward and the flops
of its products, and where less moves: only the used rows of a table, and nothing for dropout that drops nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from npformer.functional import OPERATIONS, Operation
from npformer.functional.operation import size

BYTES = 4  # of a float32


class Work(NamedTuple):
    """The work of one call."""

    flops: float = 0.0
    numbers: float = 0.0  # moved; times the bytes of one number: bytes


def work_of(op: str, y: Any, inputs: tuple[Any, ...]) -> tuple[Work, Work]:
    """The (forward, backward) work of the operation named op, given the forward's output and inputs."""
    row = OPERATIONS[op]
    flops = row.flops(*inputs)
    forward, backward = row.moves(y, *inputs) if row.moves else _moved(row, y, inputs)
    return Work(flops, forward), Work(2 * flops, backward)


def _moved(row: Operation, y: Any, inputs: tuple[Any, ...]) -> tuple[int, int]:
    """Numbers that forward and backward move, if each input is read and written as a whole."""
    arrays = {
        name: x for name, x in zip(row.inputs, inputs, strict=False) if hasattr(x, "shape") and x.dtype.kind != "b"
    }
    numbers = [x for name, x in arrays.items() if name not in row.ids.split()]
    outputs = size(*(y if isinstance(y, tuple) else (y,)))
    needed = size(*(arrays[name] for name in row.needs.split() if name in arrays))
    data, parameters = numbers[: len(numbers) - row.parameters], numbers[len(numbers) - row.parameters :]
    return size(*arrays.values()) + outputs, outputs + needed + size(*data) + 2 * size(*parameters)


def adam_work(numbers: int) -> Work:
    """One update of this many parameters: p, g, m, v are read, p, m, v are written."""
    return Work(0.0, 7 * numbers)
