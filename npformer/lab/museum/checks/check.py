"""A check: a name, a sentence that states its requirement, and functions that find problems."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from npformer.backend import Backend
from npformer.lab.museum.checks.program import Program
from npformer.models import TransformerConfig
from npformer.proof.remembered import remembered_bits
from npformer.typing import HostArray

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


def differ(what: str, found: object, expected: object, tolerance: float = 1e-12) -> list[str]:
    """A sentence if found is not expected within tolerance·(1 + |expected|); NaN is never right."""
    a, b = np.asarray(found), np.asarray(expected)
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
