"""The facts about an operation that other modules use, stated once: the row at the end of its file.

    LINEAR = Operation(linear_forward, linear_backward, parameters=2, needs="x weight",
                       flops=lambda x, weight, bias: 2 * size(x) * bias.shape[0])

The table of kernels, the fallback of fast kernels, the benchmarks' flops and bytes, the gradient checks and the
benchmarks derive from these rows; ``check/cases/op_samples.py`` holds each operation's sample inputs, under its name.
``tests/functional/test_operation.py`` checks each row against its functions on those samples.
``docs/adding-an-operation.md`` walks through an example.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from npformer.typing import Array


def size(*arrays: Array) -> int:
    """The total count of numbers in these arrays."""
    return sum(math.prod(x.shape) for x in arrays)


def no_products(*inputs: Any) -> int:
    """The flops of an operation that multiplies no matrices."""
    return 0


@dataclass(frozen=True)
class Operation:
    """One row. Inputs have the names of the forward's arguments; several stand in one string: ``"x weight"``.

    ``parameters`` is the number of trained arrays; they are the last arrays among the inputs. ``needs`` are the inputs
    on which the gradients depend, so that a backward has to read them again. ``flops(*inputs)`` is the least number of
    flops of the forward's matrix products; each product has two gradients, so the backward takes twice that.
    ``moves(y, *inputs)`` is the (forward, backward) count of numbers that must move, where the usual count
    (``benchmarks.flops``) is too high.
    """

    forward: Callable[..., tuple[Any, Any]]
    backward: Callable[..., tuple[Array, ...]]
    parameters: int = 0
    needs: str = ""
    ids: str = ""  # the input that holds token ids, or booleans about tokens: nothing to differentiate
    flops: Callable[..., float] = no_products
    moves: Callable[..., tuple[int, int]] | None = None

    def __post_init__(self) -> None:
        for end, function in (("_forward", self.forward), ("_backward", self.backward)):
            if function.__name__ != self.name + end:
                raise TypeError(f"{function.__name__}: expected {self.name}{end}, since pairs are found by their names")
        for name in (*self.needs.split(), *self.ids.split()):
            if name not in self.inputs:
                raise TypeError(f"{self.name}: expected names of its inputs ({', '.join(self.inputs)}), got {name}")

    @cached_property
    def name(self) -> str:
        """Its name in the table: layers call ``ops.linear``."""
        return self.forward.__name__.removesuffix("_forward")

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """The names of the forward's arguments."""
        return tuple(inspect.signature(self.forward).parameters)

    @property
    def draws(self) -> bool:
        """Whether it draws dropout masks. If so, the forward's last argument is the function that draws their bits."""
        return "bits" in self.inputs
