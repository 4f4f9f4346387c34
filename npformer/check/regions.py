"""Large tensors: finds small wrong entries that a sum over all would hide, and the region of an error.

A random direction sees a tensor as a sum, in which one entry of a million, or a small one beside a large one, is lost.
With weights 1/(|claim| + φ), all entries count equally. An error that appears only there is WRONG if an entry, found
by bisection, is wrong by itself by the rule of ``verdict.py``, since rounding of cancelling terms appears there too.
Slabs along each axis then locate the error: bisection finds the first and the last index at which a slab is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from npformer.check.measures import U, max_abs, rms, terms
from npformer.check.oracles import COMPLEX_H, Oracle, unit
from npformer.check.report import WRONG, Row
from npformer.check.rounding.float64 import Jitter
from npformer.typing import HostArray, Shape

Slab = tuple[slice, ...]
Index = tuple[int, ...]
FRESH = 3


def region_of(row: Row, oracle: Oracle, tensor: str, claimed: HostArray, tolerance: float) -> Row:
    """The row of a large tensor, WRONG if its small entries are, and with the region if it is wrong."""
    if not oracle.use_complex or not np.all(np.isfinite(claimed)) or (row.verdict != WRONG and not row.ok):
        return row
    look = _Look(Oracle(oracle.subject, oracle.upstreams[:1]), tensor, claimed, tolerance)
    everywhere, index = (slice(None),) * claimed.ndim, None
    if row.ok:
        if look.excess(everywhere) <= 0 or (index := look.wrong_entry()) is None:
            return row
        note = "by directions in which every entry counts alike"
        row = replace(row, verdict=WRONG, note=note, scaled_error=look.scaled_error(everywhere))
    if look.excess(everywhere, with_noise=True) > 0:
        ranges = tuple(_range(look.is_wrong, axis, claimed.shape) for axis in range(claimed.ndim))
        return replace(row, region=_said(ranges, claimed.shape))
    # Beside what rounding may do along this direction, nothing shows: the entry is what is known.
    index = look.wrong_entry() if index is None else index
    return row if index is None else replace(row, region=_said(tuple((i, i + 1) for i in index), claimed.shape))


class _Look:
    """Examines one tensor, or a part of it, along a direction in which all entries count equally."""

    def __init__(self, oracle: Oracle, tensor: str, claimed: HostArray, tolerance: float) -> None:
        self._oracle, self._tensor, self._claimed, self._tolerance = oracle, tensor, claimed, tolerance
        rng = np.random.default_rng(claimed.size)  # with signs alone, errors of equal size sometimes cancel exactly
        signs = rng.choice([-1.0, 1.0], size=claimed.shape) * rng.uniform(1, 2, size=claimed.shape)
        largest = max_abs(claimed) or 1.0  # noise below its rounding does not count, all other entries do
        self._weights = largest / (np.abs(claimed) + 64 * U * largest) * 1e-3 * signs
        self._floor, self._jitter = 64 * U * max_abs(claimed), Jitter(oracle, 0, draws=4)
        self._noise = np.where(claimed == 0, self._floor, 8 * self._jitter.of_claims(tensor, claimed))

    def _seen(self, chosen: Slab) -> tuple[float, float, float]:
        """(error, its scale, allowance for rounding) along the direction in a slab."""
        direction = np.zeros(self._claimed.shape)
        direction[chosen] = self._weights[chosen]
        slope = self._oracle.complex_step(self._tensor, direction)
        claimed = self._claimed * direction
        against = float(np.sum(np.abs(claimed))) + float(slope.reach[0])
        noise = float(np.linalg.norm(self._noise * direction))
        return abs(float(np.sum(claimed)) - float(slope.value[0])), against, noise

    def excess(self, chosen: Slab, with_noise: bool = False) -> float:
        """The excess of the error in a slab over the allowed error; signs of rounding are random."""
        error, against, noise = self._seen(chosen)
        return error - self._tolerance * against - (noise if with_noise else 0)

    def is_wrong(self, chosen: Slab) -> bool:
        return self.excess(chosen, with_noise=True) > 0

    def scaled_error(self, chosen: Slab) -> float:
        error, against, _ = self._seen(chosen)
        return error / against

    def wrong_entry(self) -> Index | None:
        """An entry that is wrong by itself, found by bisection; None if there is only rounding."""
        ranges = [(0, length) for length in self._claimed.shape]
        while any(stop - start > 1 for start, stop in ranges):
            axis = max(range(len(ranges)), key=lambda i: ranges[i][1] - ranges[i][0])
            start, stop = ranges[axis]
            halves = [(start, (start + stop) // 2), ((start + stop) // 2, stop)]
            parts = [[*ranges[:axis], half, *ranges[axis + 1 :]] for half in halves]
            ranges = max(parts, key=lambda part: self._share(tuple(slice(*bounds) for bounds in part)))
        index = tuple(start for start, _ in ranges)
        return index if self._is_wrong_at(index) else None

    def _share(self, chosen: Slab) -> float:
        error, against, noise = self._seen(chosen)
        return error / ((self._tolerance * against + noise) or 1.0)

    def _floor_at(self, direction: HostArray) -> float:
        """φ of ``verdict.py``, of which the terms of L are those that an entry has a part in."""
        subject = self._oracle.subject
        x = subject.tensors[self._tensor]
        moved = subject.outputs({self._tensor: x + 1j * COMPLEX_H * direction})
        part = terms(self._oracle.upstreams[0], [np.real(y) * (np.imag(y) != 0) for y in moved])
        return max(self._floor, 64 * U * part / (rms(x) or 1.0))

    def _is_wrong_at(self, index: Index) -> bool:
        """Whether the entry fails its rule in ``verdict.py``, also for new upstream gradients."""
        direction, jitter = unit(self._claimed.shape, index), self._jitter
        slope = self._oracle.complex_step(self._tensor, direction)
        claimed = self._claimed[index]
        cap = self._tolerance * max_abs(self._claimed)
        noise = jitter.noise(self._tensor, direction, slope.value, np.array([claimed]), cap)
        worth = 8 * float(noise[0]) + self._floor_at(direction)
        if abs(claimed - slope.value[0]) <= self._tolerance * slope.reach[0] + worth:
            return False
        error, reach, _ = jitter.fresh(self._tensor, direction, FRESH)
        return bool(np.all(error > self._tolerance * reach + worth))


def _range(is_wrong: Callable[[Slab], bool], axis: int, shape: Shape) -> tuple[int, int]:
    """The first wrong index along an axis, and one past the last."""

    def slab(start: int, stop: int) -> Slab:
        return tuple(slice(start, stop) if i == axis else slice(None) for i in range(len(shape)))

    def narrowed(low: int, high: int, is_last: bool) -> tuple[int, int]:
        while high - low > 1:  # the wrong half that is nearer to the end that is looked for, or the other one
            middle = (low + high) // 2
            other, near = ((low, middle), (middle, high)) if is_last else ((middle, high), (low, middle))
            low, high = near if is_wrong(slab(*near)) else other
        return low, high

    first, _ = narrowed(0, shape[axis], is_last=False)
    return first, narrowed(first, shape[axis], is_last=True)[1]


def _said(ranges: tuple[tuple[int, int], ...], shape: Shape) -> str:
    """As an index: [512:768, :, 3]."""
    parts = []
    for (start, stop), length in zip(ranges, shape, strict=True):
        whole = (start, stop) == (0, length)
        parts.append(":" if whole else str(start) if stop - start == 1 else f"{start}:{stop}")
    return "everywhere" if all(part == ":" for part in parts) else f"[{', '.join(parts)}]"
