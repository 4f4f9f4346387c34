"""The facts about an operation that other modules use, stated once: the row at the end of its file.

    LINEAR = Operation(linear_forward, linear_backward, parameters=2)

The table of kernels, the fallback of fast kernels, the gradient checks and the benchmarks derive from these rows;
``check/cases/op_samples.py`` holds each operation's sample inputs, under its name.
``tests/functional/test_operation.py`` checks each row against its functions on those samples.
``docs/adding-an-operation.md`` walks through an example.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from npformer.typing import Array


@dataclass(frozen=True)
class Operation:
    """One row. ``parameters`` is the number of trained arrays; they are the last arrays among the inputs."""

    forward: Callable[..., tuple[Any, Any]]
    backward: Callable[..., tuple[Array, ...]]
    parameters: int = 0
    ids: str = ""  # the input that holds token ids, or booleans about tokens: nothing to differentiate

    def __post_init__(self) -> None:
        for end, function in (("_forward", self.forward), ("_backward", self.backward)):
            if function.__name__ != self.name + end:
                raise TypeError(f"{function.__name__}: expected {self.name}{end}, since pairs are found by their names")
        if self.ids and self.ids not in self.inputs:
            raise TypeError(f"{self.name}: expected one of its inputs ({', '.join(self.inputs)}), got ids={self.ids}")

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
