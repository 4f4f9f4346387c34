"""Other sizes of a check's inputs: one row, the edges of blocks, and axes that need not be of the same length.

Axes of equal length are one size, and grow together. Where forward lets one grow by itself, as queries beside keys,
that is tried, too. New numbers are drawn from those that are there, and stay what they are: positive ones positive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]
#: An array's name and its axis.
Axis = tuple[str, int]

#: One row or column, and around the widths of warps and blocks.
EDGES = (1, 31, 32, 33, 63, 64, 65, 127, 128, 129)
#: By how much an axis grows or shrinks by itself.
APART = (3, -2)
#: A size with more elements is not tried.
MOST = 10_000
#: Of a number that is drawn again: by how much it moves.
MOVE = 0.2


class Size(NamedTuple):
    """A size: which axes get which length."""

    name: str
    axes: tuple[Axis, ...]
    length: int


def sizes_of(arrays: Mapping[str, Array], edges: Sequence[int], fits: Callable[[Size], bool]) -> Iterator[Size]:
    """Every size to try. fits: whether forward takes a size; asked about axes that change without the others alone."""
    groups: dict[int, list[Axis]] = {}
    for name, x in arrays.items():
        for axis, n in enumerate(x.shape):
            if n > 1:
                groups.setdefault(n, []).append((name, axis))
    for old, axes in groups.items():
        name, axis = axes[0]
        for n in edges:
            if n != old:
                yield Size(f"{name}.shape[{axis}] = {n}", tuple(axes), n)
        yield from _apart(old, axes, fits)


def _apart(old: int, axes: Sequence[Axis], fits: Callable[[Size], bool]) -> Iterator[Size]:
    """The sizes at which some axes of one length differ from the rest: single ones, or else pairs."""
    for count in range(1, min(len(axes) - 1, 2) + 1):
        found = False
        for some in combinations(axes, count):
            label = ", ".join(f"{name}.shape[{axis}]" for name, axis in some)
            sizes = [Size(f"{label} = {old + by}, the rest {old}", some, old + by) for by in APART if old + by > 1]
            for size in sizes:
                if fits(size):
                    found = True
                    yield size
        if found:
            return


def resized(arrays: Mapping[str, Array], size: Size, rng: np.random.Generator) -> dict[str, Array]:
    """The arrays at a size; MemoryError is not risked: see ``elements``."""
    there = dict(arrays)
    for name in dict.fromkeys(name for name, _ in size.axes):
        x = arrays[name]
        shape = tuple(size.length if (name, axis) in size.axes else n for axis, n in enumerate(x.shape))
        there[name] = _drawn(x, shape, rng)
    return there


def elements(arrays: Mapping[str, Array], size: Size) -> int:
    """How many numbers all arrays have at a size."""
    return sum(
        int(np.prod([size.length if (name, axis) in size.axes else n for axis, n in enumerate(x.shape)]))
        for name, x in arrays.items()
    )


def _drawn(x: Array, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """An array like x in another shape: what is there is kept, the rest is drawn from it; ids and masks go on."""
    there = x
    for axis, n in enumerate(shape):
        there = np.take(there, np.arange(n) % x.shape[axis], axis)
    if x.dtype.kind != "f":
        return there
    drawn = rng.choice(x.ravel(), size=shape) * (1 + MOVE * rng.uniform(-1, 1, size=shape))
    kept = tuple(slice(min(a, b)) for a, b in zip(x.shape, shape, strict=True))
    drawn[kept] = x[kept]
    return drawn.astype(x.dtype)
