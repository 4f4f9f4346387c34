"""Regimes: where kernels that are right at normal inputs often are wrong. Each changes an input by what it is.

A real input may be scores, rows to normalise, or gates. Unless the user says which, it is tried in every regime.
Integers are ids, classes or lengths, booleans are masks. A regime changes one input and leaves the others as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from npformer.check.measures import rms
from npformer.check.shapes import are_lengths, is_permutation
from npformer.errors import ConfigError
from npformer.typing import HostArray

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
