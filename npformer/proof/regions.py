"""Large tensors: small entries that a sum over all would hide, and where the wrong part lies.

Random directions see a tensor as a sum, in which one entry of a million, or a small one beside a large, is lost.
Weighted by 1/(|claim| + φ), every entry counts alike. Slabs along each axis then say where the wrong part is: the
first and the last index at which a slab is wrong are found by halving.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from npformer.proof.jitter import Jitter
from npformer.proof.oracles import Oracle
from npformer.proof.report import WRONG, Row

Host = np.ndarray[Any, Any]
U = 2.0**-53


def region_of(row: Row, oracle: Oracle, tensor: str, claimed: Host, tolerance: float) -> Row:
    """The row of a large tensor, WRONG if its small entries are, and with the region if it is wrong."""
    if not oracle.use_complex or not np.all(np.isfinite(claimed)) or (row.verdict != WRONG and not row.ok):
        return row
    one = Oracle(oracle.subject, oracle.upstreams[:1])
    weights = _weights(claimed)
    rng = np.random.default_rng(claimed.size)  # with signs alone, errors of one size cancel exactly now and then
    weights = weights * rng.choice([-1.0, 1.0], size=claimed.shape) * rng.uniform(1, 2, size=claimed.shape)

    def error(chosen: tuple[slice, ...]) -> tuple[float, float, Host]:
        """(error along the weighted direction in a slab, what is allowed there, the direction)."""
        direction = np.zeros(claimed.shape)
        direction[chosen] = weights[chosen]
        slope = one.complex_step(tensor, direction)
        said = claimed * direction
        size = float(np.sum(np.abs(said))) + float(slope.reach[0])
        return abs(float(np.sum(said)) - float(slope.value[0])), tolerance * size, direction

    def is_wrong(chosen: tuple[slice, ...]) -> bool:
        found, allowed, _ = error(chosen)
        return found > allowed

    everywhere = (slice(None),) * claimed.ndim
    found, allowed, direction = error(everywhere)
    if row.ok:
        if found <= allowed or _is_noise(one, tensor, direction, claimed, found, allowed):
            return row
        note = "by directions in which every entry counts alike"
        row = replace(row, verdict=WRONG, note=note, scaled_error=found / (allowed / tolerance))
    elif found <= allowed:
        return row  # along this one nothing shows
    return replace(
        row, region=_said(tuple(_range(is_wrong, axis, claimed.shape) for axis in range(claimed.ndim)), claimed.shape)
    )


def _weights(claimed: Host) -> Host:
    """One over each entry's size, so that every one counts; noise below the largest entry's rounding does not."""
    size = np.abs(claimed)
    largest = float(np.max(size, initial=0.0)) or 1.0
    return np.asarray(largest / (size + 64 * U * largest) * 1e-3)


def _is_noise(one: Oracle, tensor: str, direction: Host, claimed: Host, error: float, allowed: float) -> bool:
    """Whether rounding alone moves the two sides by so much."""
    jitter = Jitter(one, 0, draws=3)
    slope = one.complex_step(tensor, direction)
    moves = jitter.along(tensor, direction, slope, float(np.sum(claimed * direction)))
    return error <= allowed + 8 * moves


def _range(is_wrong: Callable[[tuple[slice, ...]], bool], axis: int, shape: tuple[int, ...]) -> tuple[int, int]:
    """The first index along an axis at which something is wrong, and the one behind the last."""

    def slab(start: int, stop: int) -> tuple[slice, ...]:
        return tuple(slice(start, stop) if i == axis else slice(None) for i in range(len(shape)))

    low, high = 0, shape[axis]  # [0, low) is right, [0, high) is not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_wrong(slab(low, middle)) else (middle, high)
    first = low
    low, high = first, shape[axis]  # [high, end) is right, [low, end) is not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_wrong(slab(middle, high)) else (low, middle)
    return first, high


def _said(ranges: tuple[tuple[int, int], ...], shape: tuple[int, ...]) -> str:
    """As an index: [512:768, :, 3]."""
    parts = []
    for (start, stop), length in zip(ranges, shape, strict=True):
        whole = (start, stop) == (0, length)
        parts.append(":" if whole else str(start) if stop - start == 1 else f"{start}:{stop}")
    return "everywhere" if all(part == ":" for part in parts) else f"[{', '.join(parts)}]"
