"""Regimes and sizes: where kernels that are right at normal inputs often are wrong.

A regime changes one input by what it is, and leaves the others as they are. A real input may be scores, rows to
normalise, or gates. Unless the user says which, it is tried in every regime. Integers are ids, classes or lengths,
booleans are masks.

Sizes are one row, the edges of blocks, and axes that need not be of the same length. Axes of equal length are one size,
and grow together. Where forward lets one grow by itself, as queries beside keys, that is tried, too. New numbers are
drawn from those that are there, and stay what they are: positive ones positive.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from npformer.check.measures import rms
from npformer.errors import ConfigError
from npformer.typing import HostArray, HostArrays, Shape, Tensors

ABOVE = (12.0, 30.0)  # a softmax is then certain up to 6e-6, which float32 still tells from 1, and up to 1e-13
SATURATED = (100.0, 750.0)  # exp overflows in float32, and a sigmoid is 0 or 1 in float64; it overflows there, too
NEARLY = 1e-3  # of the size of a row: what is left of its deviations
#: What a regime adds, and by what it multiplies, where a few digits must still tell the numbers apart.
OFFSETS = {"float64": 100.0, "bfloat16": 30.0, "float16": 30.0}
OFFSET = 1000.0  # in float32
TINY, LOW_TINY = 1e-6, 1e-3


class Around(NamedTuple):
    """What a regime knows beside the input that it changes."""

    precision: str
    others: Sequence[HostArray]  # the integer arrays
    ignored: tuple[int, ...]  # ids that the forward leaves out
    lengths: Collection[int] = ()  # of the axes of real inputs


def _confident(x: HostArray, around: Around) -> Iterator[HostArray]:
    """One entry of each row 12, and 30, above the others: at its class if there are classes."""
    if x.ndim and x.shape[-1] > 1:
        wide = x.shape[-1]
        fits = [ids for ids in around.others if ids.shape == x.shape[:-1] and np.all((ids >= 0) & (ids < wide))]
        rows = np.arange(x[..., 0].size).reshape(x.shape[:-1])
        for height in ABOVE:
            yield _with(x, fits[0] if fits else rows % wide, height)


def _ties(x: HostArray, around: Around) -> Iterator[HostArray]:
    """The largest entry of each row twice."""
    if x.ndim and x.shape[-1] > 1:
        yield _with(x, (x.argmax(axis=-1) + 1) % x.shape[-1], 0.0)


def _with(x: HostArray, at: HostArray, height: float) -> HostArray:
    """x, whose entries at these columns are so much above the largest of their row."""
    there = x.copy()
    np.put_along_axis(there, np.expand_dims(at, -1), x.max(axis=-1, keepdims=True) + height, axis=-1)
    return there


def _zeros(x: HostArray, around: Around) -> Iterator[HostArray]:
    """The first row 0, and one entry of each other row."""
    there = x.copy()
    flat = there.reshape(-1, x.shape[-1] if x.ndim else 1)
    flat[np.arange(len(flat)), np.arange(len(flat)) % flat.shape[1]] = 0
    if len(flat) > 1:
        flat[0] = 0
    yield there


def _repeated(x: HostArray, around: Around) -> Iterator[HostArray]:
    """The same id everywhere. Permutations, and lengths of an axis's parts, are left: their users rely on them."""
    if x.size > 1 and not is_permutation(x, around.lengths) and not are_lengths(x, around.lengths):
        yield np.full_like(x, x.flat[0])


def _all_padded(x: HostArray, around: Around) -> Iterator[HostArray]:
    """A mask whose first row hides all, or shows all; ids, or the first of them, that are ignored; a length of 0.

    A permutation is left as it is; of the lengths of an axis's parts, the first one goes to the last.
    """
    if is_permutation(x, around.lengths):
        return
    if are_lengths(x, around.lengths):
        yield np.concatenate([[0], x[1:-1], x[-1:] + x[0]])
        return
    for value in (
        (False, True) if x.dtype.kind == "b" else (*around.ignored, *({x.min()} if x.size and x.min() < 0 else ()), 0)
    ):
        first = x.copy()
        if x.dtype.kind != "b":
            yield np.full_like(x, value)
            first.reshape(-1)[:1] = value
        else:
            first[: 1 if x.ndim > 1 else None] = value
        yield first


Change = Callable[[HostArray, Around], Iterator[HostArray]]


def _each(change: Callable[[HostArray, str], HostArray]) -> Change:
    return lambda x, around: iter([change(x, around.precision)])


def _saturated(change: Callable[[HostArray, float], HostArray]) -> Change:
    return lambda x, around: (change(x, by) for by in SATURATED[: 1 + (around.precision == "float64")])


#: Name -> (its change, the kinds of arrays that it changes).
REGIMES: Mapping[str, tuple[Change, str]] = {
    "confident": (_confident, "f"),
    "saturated above": (_saturated(lambda x, by: by + np.abs(x)), "f"),
    "saturated below": (_saturated(lambda x, by: -by - np.abs(x)), "f"),
    "saturated": (_saturated(lambda x, by: x + np.copysign(by, x)), "f"),
    "nearly constant": (_each(lambda x, _: 1 + NEARLY * x), "f"),
    "offset": (_each(lambda x, precision: x + OFFSETS.get(precision, OFFSET)), "f"),
    "times 3": (_each(lambda x, _: 3 * x), "f"),
    "times 10": (_each(lambda x, _: 10 * x), "f"),
    "tiny": (_each(lambda x, precision: x * (LOW_TINY if precision == "float16" else TINY)), "f"),
    "zeros": (_zeros, "f"),
    "ties": (_ties, "f"),
    "negative": (_each(lambda x, _: -np.abs(x)), "f"),
    "repeated ids": (_repeated, "iu"),
    "all padded": (_all_padded, "biu"),
}
_SATURATED = ("saturated above", "saturated below", "saturated")
#: What an input is -> its regimes.
KINDS: Mapping[str, tuple[str, ...]] = {
    "scores": ("confident", *_SATURATED, "offset", "times 3", "times 10", "zeros", "ties", "negative"),
    "rows": ("nearly constant", "offset", "times 3", "times 10", "tiny", "zeros", "ties", "negative"),
    "gates": (*_SATURATED, "times 3", "times 10", "tiny", "zeros", "negative"),
    "ids": ("repeated ids", "all padded"),
    "lengths": ("all padded",),
    "masks": ("all padded",),
}
#: "all", names of regimes, or for each input by name what it is, or its regimes.
Regimes = str | Sequence[str] | Mapping[str, str | Sequence[str]]


def chosen(regimes: Regimes, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The regimes in which each input is tried. Raises ConfigError for an unknown regime or input."""
    if not isinstance(regimes, Mapping):
        return dict.fromkeys(names, _named(regimes))
    unknown = sorted(regimes.keys() - set(names))
    if unknown:
        raise ConfigError(f"regimes: expected names of arrays, among {', '.join(names)}, got {', '.join(unknown)}")
    return {name: _named(wanted) for name, wanted in regimes.items()}


def _named(wanted: str | Sequence[str]) -> tuple[str, ...]:
    words = (wanted,) if isinstance(wanted, str) else tuple(wanted)
    known = {"all": tuple(REGIMES), **KINDS, **{name: (name,) for name in REGIMES}}
    for word in words:
        if word not in known:
            raise ConfigError(f"regimes: expected {', '.join(known)}, or several of them, got {word!r}")
    return tuple(dict.fromkeys(name for word in words for name in known[word]))


def variants(name: str, x: HostArray, around: Around) -> Iterator[HostArray]:
    """The input in a regime, in its own dtype; none if the regime is for another kind of array, or changes nothing."""
    change, kinds = REGIMES[name]
    if x.size and x.dtype.kind in kinds and (x.dtype.kind != "f" or rms(x)):
        for there in change(x, around):
            if not np.array_equal(there, x):
                yield np.asarray(there).astype(x.dtype)


#: An array's name and its axis.
Axis = tuple[str, int]

#: One row or column, every remainder of 2, 3, 4, 8 and 16, and around the widths of warps and blocks.
EDGES = (1, *range(19, 35), *(n + k for n in (64, 128, 256, 512) for k in (-1, 0, 1, 2)))
#: By how much an axis grows or shrinks by itself.
APART = (3, -2)
THE_REST = ", the rest "  # in the name of a size at which axes of one length differ
#: A size with more elements is not tried.
MOST = 10_000
#: Of a number that is drawn again: by how much it moves.
MOVE = 0.2


class Size(NamedTuple):
    """A size: which axes get which length."""

    name: str
    axes: tuple[Axis, ...]
    length: int


def axes_by_length(arrays: Tensors) -> dict[int, list[Axis]]:
    """The axes of each length beyond 1."""
    groups: dict[int, list[Axis]] = {}
    for name, x in arrays.items():
        for axis, n in enumerate(x.shape):
            if n > 1:
                groups.setdefault(n, []).append((name, axis))
    return groups


def sizes_of(arrays: Tensors, edges: Sequence[int], fits: Callable[[Size], bool]) -> Iterator[Size]:
    """Every size to try. fits: whether forward takes a size; asked about axes that change without the others alone."""
    for old, axes in axes_by_length(arrays).items():
        name, axis = axes[0]
        for n in edges:
            if n != old:
                yield Size(f"{name}.shape[{axis}] = {n}", tuple(axes), n)
        if not any(is_permutation(arrays[name], lengths_of(arrays)) for name, _ in axes):
            yield from _apart(old, axes, fits)


def _apart(old: int, axes: Sequence[Axis], fits: Callable[[Size], bool]) -> Iterator[Size]:
    """The sizes at which some axes of one length differ from the rest: single ones, or else pairs."""
    for count in range(1, min(len(axes) - 1, 2) + 1):
        found = False
        for some in combinations(axes, count):
            label = ", ".join(f"{name}.shape[{axis}]" for name, axis in some)
            sizes = [Size(f"{label} = {old + by}{THE_REST}{old}", some, old + by) for by in APART if old + by > 1]
            for size in sizes:
                if fits(size):
                    found = True
                    yield size
        if found:
            return


def resized(arrays: Tensors, size: Size, rng: np.random.Generator) -> HostArrays:
    """The arrays at a size; MemoryError is not risked: see ``elements``."""
    there = dict(arrays)
    for name in dict.fromkeys(name for name, _ in size.axes):
        x = arrays[name]
        shape = tuple(size.length if (name, axis) in size.axes else n for axis, n in enumerate(x.shape))
        there[name] = _drawn(x, shape, rng, permuted_axis(x, lengths_of(arrays)))
    for name, x in arrays.items():
        if are_lengths(x, lengths_of(arrays)):
            there[name] = _parted(there, name, x, arrays)
        elif (
            x.dtype.kind in "iu"
            and x.size
            and not is_permutation(x, lengths_of(arrays))
            and _counts(x, arrays) in _grown(arrays, size)
        ):
            there[name] = np.array(there[name], order="C")
            last = min(size.length, np.iinfo(x.dtype).max + 1) - 1  # ids go on to the end of their table
            there[name].reshape(-1)[-1] = last
    return there


def is_permutation(x: HostArray, lengths: Collection[int]) -> bool:
    """Whether integers are a permutation of an axis of one of these lengths."""
    return permuted_axis(x, lengths) is not None


def permuted_axis(x: HostArray, lengths: Collection[int]) -> int | None:
    """The axis along which integers are 0 to n − 1, or 1 to n, each once, n being one of these lengths; or None."""
    if x.dtype.kind in "iu" and x.size > 1:
        for axis in reversed(range(x.ndim)):
            n, ordered = x.shape[axis], np.sort(np.moveaxis(x, axis, -1), axis=-1)
            if n > 1 and n in lengths and any(np.all(ordered == np.arange(n) + base) for base in (0, 1)):
                return axis
    return None


def are_lengths(x: HostArray, lengths: Collection[int]) -> bool:
    """Whether integers are the lengths of parts of one of these axes: together they are as long as it."""
    return x.dtype.kind in "iu" and x.ndim == 1 and x.size > 1 and x.min() > 0 and int(x.sum()) in lengths


def lengths_of(arrays: Tensors) -> set[int]:
    """The lengths of the axes of real numbers."""
    return {n for x in arrays.values() if x.dtype.kind == "f" for n in x.shape}


def _parted(there: Tensors, name: str, x: HostArray, arrays: Tensors) -> HostArray:
    """The lengths of as many parts as there are now, of an axis that is as long as it is now."""
    total = next(now for other, y in arrays.items() if y.dtype.kind == "f"
                 for old, now in zip(y.shape, there[other].shape, strict=True) if old == x.sum())  # fmt: skip
    is_same = there[name].shape == x.shape and total == x.sum()
    parts = np.array(x) if is_same else np.full_like(there[name], total // len(there[name]))
    parts[-1] += total - parts.sum()
    return parts


def _counts(ids: HostArray, arrays: Tensors) -> int:
    """The length of the table that ids count: the smallest length beyond all of them; 0 if there is none."""
    longer = [n for x in arrays.values() if x.dtype.kind == "f" for n in x.shape if n > ids.max() >= 0]
    return min(longer, default=0)


def _grown(arrays: Tensors, size: Size) -> set[int]:
    """The length of the axes of real numbers that grow, as it was."""
    axes = [(arrays[name], axis) for name, axis in size.axes if arrays[name].dtype.kind == "f"]
    return {x.shape[axis] for x, axis in axes if x.shape[axis] < size.length}


def elements(arrays: Tensors, size: Size) -> int:
    """How many numbers all arrays have at a size."""
    return sum(
        math.prod(size.length if (name, axis) in size.axes else n for axis, n in enumerate(x.shape))
        for name, x in arrays.items()
    )


def _drawn(x: HostArray, shape: Shape, rng: np.random.Generator, permuted: int | None) -> HostArray:
    """An array like x in another shape: what is there is kept, the rest is drawn from it; ids and masks go on.

    A permutation, along that axis, becomes another one: its users rely on it.
    """
    if permuted is not None:
        ordered = np.moveaxis(np.empty(shape), permuted, -1)
        ordered[...] = np.arange(shape[permuted]) + x.min()
        return np.moveaxis(rng.permuted(ordered, axis=-1), -1, permuted).astype(x.dtype)
    there = x
    for axis, n in enumerate(shape):
        there = np.take(there, np.arange(n) % x.shape[axis], axis)
    if x.dtype.kind != "f":
        return there
    drawn = rng.choice(x.ravel(), size=shape) * (1 + MOVE * rng.uniform(-1, 1, size=shape))
    kept = tuple(slice(min(a, b)) for a, b in zip(x.shape, shape, strict=True))
    drawn[kept] = x[kept]
    return drawn.astype(x.dtype)
