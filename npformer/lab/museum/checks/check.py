"""A check: a name, a sentence that states its requirement, and functions that find problems in a program."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np

from npformer.backend import Backend
from npformer.check.remembered import remembered_bits
from npformer.models import TransformerConfig
from npformer.typing import HostArray

Value = TypeVar("Value")
#: The decoder's inputs and targets of three sequences, two of them padded.
TGT_IN = np.array([[1, 6, 4, 5, 3], [1, 6, 6, 0, 0], [1, 4, 0, 0, 0]])
TGT_OUT = np.array([[6, 4, 5, 3, 2], [6, 6, 2, 0, 0], [4, 2, 0, 0, 0]])


class Program:
    """The subject of a check: a backend, and what its checks share. ran: collects the targets that run."""

    def __init__(self, backend: Backend, ran: set[str] | None = None) -> None:
        self.backend, self._ran = backend, set[str]() if ran is None else ran
        self._held: dict[Hashable, tuple[Any, frozenset[str]]] = {}  # a value, and the targets that ran to make it

    def shared(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """make(), called once for all checks of this program. All its callers count as having run its targets."""
        if key not in self._held:
            before = frozenset(self._ran)
            self._ran.clear()
            self._held[key] = make(), frozenset(self._ran)
            self._ran |= before
        value, ran = self._held[key]
        self._ran |= ran
        return value  # type: ignore[no-any-return]


#: program -> problems, one sentence each; an empty result: the check holds.
Find = Callable[[Program], list[str]]


@dataclass(frozen=True)
class Check:
    """One check. Checks are reported in order: specific and cheap ones first.

    Each part examines one case; the check ends with the first part that finds a problem.
    """

    name: str
    meaning: str
    parts: tuple[Find, ...]

    def __call__(self, program: Program, parts: Iterable[int] | None = None) -> list[str]:
        """The problems found by some of the parts (default: all). A crash counts as a problem, as in a test."""
        with np.errstate(all="ignore"), warnings.catch_warnings(), remembered_bits():
            warnings.simplefilter("ignore")
            for i in range(len(self.parts)) if parts is None else parts:
                problems = _problems(self.parts[i], program)
                if problems:
                    return problems
        return []


def _problems(find: Find, program: Program) -> list[str]:
    try:
        return find(program)
    except Exception as error:
        first = str(error).strip().split("\n")[0]
        return [f"it crashes with {type(error).__name__}: {first}"]


def of_backend(*told: tuple[str, str, Callable[[Backend], list[str]]]) -> tuple[Check, ...]:
    """Checks of one part each, on the program's backend: name, meaning and a function that finds problems."""
    return tuple(Check(name, meaning, (partial(_asked, find),)) for name, meaning, find in told)


def _asked(find: Callable[[Backend], list[str]], program: Program) -> list[str]:
    return find(program.backend)


def small_config(vocabulary: int = 7, **changes: Any) -> TransformerConfig:
    """The options of a small Transformer without dropout, with changes."""
    sizes: dict[str, Any] = {"d_model": 8, "num_heads": 2, "d_ff": 12, "num_encoder_layers": 1, "num_decoder_layers": 1}
    return TransformerConfig(vocabulary, vocabulary, **(sizes | {"dropout": 0.0} | changes))


def differ(what: str, got: object, expected: object, tolerance: float = 1e-12) -> list[str]:
    """A sentence if found is not expected within tolerance·(1 + |expected|); NaN is never right."""
    a, b = np.asarray(got), np.asarray(expected)
    if a.shape != b.shape:
        return [f"{what} has shape {a.shape}, expected {b.shape}"]
    wrong = ~(np.abs(a - b) <= tolerance * (1 + np.abs(b)))
    if not wrong.any():
        return []
    place = tuple(int(i) for i in np.argwhere(wrong)[0])
    at = f" at [{', '.join(map(str, place))}]" if place else ""
    digits = next((n for n in (6, 9) if f"{a[place]:.{n}g}" != f"{b[place]:.{n}g}"), 15)
    share = f"{int(wrong.sum())} of {a.size} differ"
    return [f"{what}{at} is {a[place]:.{digits}g}, expected {b[place]:.{digits}g} ({share})"]


def normal(seed: int, *shape: int) -> HostArray:
    """Random numbers, (shape), the same for the same seed."""
    return np.random.default_rng(seed).normal(size=shape)


def normals(seed: int, *shapes: tuple[int, ...]) -> tuple[HostArray, ...]:
    """An array of such numbers for each shape, with seeds from this one on."""
    return tuple(normal(seed + i, *shape) for i, shape in enumerate(shapes))
