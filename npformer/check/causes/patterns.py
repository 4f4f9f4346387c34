"""Explains a wrong gradient by the pattern of its error.

The tensor itself is examined: a constant ratio (and the number of the problem that it equals), a transposition, an axis
summed once too often, an error only at masked, repeated, first or last positions, one head's columns in another's
place, or another tensor's gradient. ``search.py`` looks for the mistake in the code.

A diagnosis that fits no pattern is *unknown*: better than a guess.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import NamedTuple

import numpy as np

from npformer.check.measures import NEGLIGIBLE, largest, max_abs
from npformer.typing import HostArray, Tensors

#: Two gradients are the same explanation if they agree to this, relative to the larger one's size.
AGREES = 1e-7


NO_TENSORS: Tensors = {}


class Diagnosis(NamedTuple):
    """Why a tensor's gradient is wrong: a short label, and a sentence."""

    cause: str
    text: str


#: Numbers that need no letter.
NUMBERS = {"−1": -1.0, "2": 2.0, "1/2": 0.5, "0": 0.0, "1": 1.0}
UNKNOWN = Diagnosis("unknown", "no known pattern fits")
NOT_ZERO = "not zero"


@dataclass(frozen=True)
class Clues:
    """Facts about the problem, all optional.

    sizes: named numbers that a wrong factor may equal, {"B": 4, "√D": 2.0, …}. tokens: ids (B, T) that
    picked rows of a table. key_visible: (B, S), False where padded. num_heads: H. values: the tensor's own numbers.
    """

    sizes: Mapping[str, float] = field(default_factory=dict)
    tokens: HostArray | None = None
    key_visible: HostArray | None = None
    num_heads: int | None = None
    values: HostArray | None = None  # of the tensor


def is_vague(diagnosis: Diagnosis | None) -> bool:
    """Whether a diagnosis leaves open what to change: it tells the error's place or size."""
    if diagnosis is None or diagnosis == UNKNOWN:
        return True
    label, _, name = diagnosis.cause.partition("scaled by ")
    is_digits = name and "=" not in name and name not in ("2", "1/2")
    return bool(is_digits) or label.startswith(
        ("wrong", "zero in places", "not zero in places", "term missing", NOT_ZERO, "axis summed")
    )


def diagnose(
    claimed: Tensors, truth: Tensors, clues: Clues | None = None, tensors: Tensors = NO_TENSORS
) -> dict[str, Diagnosis]:
    """A Diagnosis for every tensor whose claimed gradient is not the true one; all by name, same shapes."""
    clues = clues or Clues()
    floor = NEGLIGIBLE * largest(truth.values())
    wrong = [name for name in claimed if not agree(claimed[name], truth[name], floor)]
    if not wrong:
        return {}
    # A tensor that is zero except for rounding, such as the gradient of the keys' bias, counts as zeros.
    plain = {name: np.zeros_like(n) if max_abs(n) <= AGREES * floor else n for name, n in truth.items()}
    diagnoses = {
        name: by_pattern(claimed[name], plain[name], replace(clues, values=tensors.get(name))) for name in wrong
    }
    for x, y in combinations(wrong, 2):
        if all(agree(claimed[a], truth[b]) for a, b in ((x, y), (y, x))):
            diagnoses |= {x: _swapped(y), y: _swapped(x)}
    return diagnoses


def _swapped(other: str) -> Diagnosis:
    return Diagnosis("swapped outputs", f"it is the gradient of {other}, and that is this one's: return them in order")


def by_shape(a: HostArray, n: HostArray) -> Diagnosis | None:
    """What a gradient of another shape lacks, if its numbers are right but for that; the text has no subject."""
    for axis in range(a.ndim):
        for keep in (True, False):
            if agree(a.sum(axis=axis, keepdims=keep), n):
                how = f"axis {axis}: .sum(axis={axis}, keepdims={keep})"
                return Diagnosis("axes not summed", f"has to be summed over {how}")
    first = tuple(range(a.ndim - n.ndim))
    if first and agree(a.sum(axis=first), n):
        return Diagnosis("axes not summed", f"has to be summed over its first {len(first)} axes")
    if a.size == n.size and agree(a.reshape(n.shape), n):
        text = "has numbers that are right, in another shape: is keepdims=True missing, or too much?"
        return Diagnosis("right numbers in another shape", text)
    return Diagnosis("transposed", "is right but transposed") if agree(a.T, n) else None


def by_pattern(a: HostArray, n: HostArray, clues: Clues) -> Diagnosis:
    """Explain the error of one tensor: a is the claimed gradient, n the true one."""
    if not np.all(np.isfinite(a)):
        return Diagnosis("not finite", f"{int(np.sum(~np.isfinite(a)))} of {a.size} entries are NaN or infinite")
    if max_abs(a) == 0:
        return Diagnosis("zero", "it is zero everywhere, where it should not be")
    for reader in (_ratio, _transposition, _place, _axis, _heads):
        diagnosis = reader(a, n, clues)
        if diagnosis is not None:
            return diagnosis
    return UNKNOWN


def _ratio(a: HostArray, n: HostArray, clues: Clues) -> Diagnosis | None:
    """a = c·n for one number c."""
    square = float(np.sum(n * n))
    if square == 0:
        return Diagnosis(NOT_ZERO, "it should be zero everywhere, and is not")
    factor = float(np.sum(a * n)) / square
    if n.size < 2 or abs(factor - 1) <= 10 * AGREES or not agree(a, factor * n):
        return None
    name = name_of(factor, clues.sizes)
    if name == "−1":
        return Diagnosis("sign", "it has the opposite sign everywhere")
    perhaps = ""
    is_letter = len(name.partition(" = ")[0]) == 1
    if is_letter and round(factor) in (3, 4) and factor > 2.5:  # a literal of the code, as likely as a size
        name, perhaps = f"{factor:.0f}", f"; {name}, too"
    return Diagnosis(f"scaled by {name}", f"it is {name} times too large everywhere{perhaps}" if abs(factor) > 1 else
                     f"it is {name} of what it should be everywhere")  # fmt: skip


def name_of(factor: float, sizes: Mapping[str, float]) -> str:
    """A number's name: 2, 1/2, a size of the problem or one over it; else its digits."""
    matches = names_of(factor, sizes)
    if not matches:
        return f"{factor:.4g}" if f"{factor:.4g}" != "1" else f"{factor:.7g}"
    return matches[0] if matches[0] in NUMBERS else f"{matches[0]} = {factor:.4g}"


def names_of(factor: float, sizes: Mapping[str, float]) -> list[str]:
    """All names that a number may have, those of NUMBERS first; then sizes of the problem, and products of two."""
    known = NUMBERS | {letter: float(length) for letter, length in sizes.items()}
    known |= {_inverse(letter): 1 / length for letter, length in sizes.items() if length}
    for (x, size_x), (y, size_y) in combinations(sizes.items(), 2):
        product = size_x * size_y
        known |= {f"{x}·{y}": product, f"1/({x}·{y})": 1 / product if product else math.nan}
    return [name for name, value in known.items() if abs(factor - value) <= 1e-6 * (abs(value) or 0.1)]


def _inverse(letter: str) -> str:
    if letter == "1/(1−p)":
        return "1−p"
    is_simple = "(line" in letter or not {"·", " "} & set(letter)
    return f"1/{letter}" if is_simple else f"1/({letter})"


def _transposition(a: HostArray, n: HostArray, clues: Clues) -> Diagnosis | None:
    """a = n with two axes exchanged."""
    for i, j in combinations(range(n.ndim), 2):
        if n.shape[i] == n.shape[j] and n.shape[i] > 1 and agree(a, np.swapaxes(n, i, j)):
            return Diagnosis("transposed", f"axes {i} and {j} are exchanged")
    return None


def _place(a: HostArray, n: HostArray, clues: Clues) -> Diagnosis | None:
    """The error is only at some indices of one axis."""
    error = np.abs(a - n)
    wrong = error > AGREES * max(max_abs(a), max_abs(n))
    if np.any(error[~wrong] > 1e-3 * max_abs(error)):
        return None  # wrong everywhere, to different degrees
    if clues.tokens is not None and n.ndim == 2:
        rows = set(np.flatnonzero(wrong.any(axis=1)).tolist())
        ids, counts = np.unique(clues.tokens, return_counts=True)
        once, repeated = set(ids[counts == 1].tolist()), set(ids[counts > 1].tolist())
        if (
            rows and rows <= repeated and once and once <= set(range(len(n)))
        ):  # rows used once show that those are right
            text = f"only {_listed(rows)} wrong, those of repeated tokens: assigned instead of accumulated?"
            return Diagnosis("wrong at repeated tokens", text)
    if clues.key_visible is not None and n.ndim >= 3:
        of_keys = wrong if n.ndim == 3 else np.moveaxis(wrong, -2, 1)  # (B, S, C), or (B, H, S, D) as (B, S, H, D)
        spots = of_keys.reshape(*of_keys.shape[:2], -1).any(axis=2)
        if spots.shape == clues.key_visible.shape and not np.any(spots & clues.key_visible):
            return Diagnosis("wrong at masked positions", "only masked (padded) positions are wrong")
    for axis, length in enumerate(n.shape):
        others = tuple(i for i in range(n.ndim) if i != axis)
        bad = np.flatnonzero(wrong.any(axis=others)) if others else np.flatnonzero(wrong)
        where = {0: "first", length - 1: "last"}.get(int(bad[0])) if len(bad) == 1 else None
        if where and length > 2 and wrong.sum() * length == wrong.size > 2 * length:  # two may be so by chance
            text = f"only index {bad[0]} of axis {axis} is wrong, the {where}"
            return Diagnosis(f"wrong at the {where} position", text)
    if wrong.all():
        return None
    where = _region(wrong, clues.values)
    entries = f"{int(wrong.sum())} of {a.size} entries"
    if not np.any(wrong & (a != 0)):
        return Diagnosis("zero in places", f"{entries} are 0 where they should not be{where}")
    if not np.any(wrong & (n != 0)):
        return Diagnosis("not zero in places", f"{entries} should be 0 and are not{where}")
    return Diagnosis("wrong in a region", f"only {entries} are wrong{where}") if where else None


def _region(wrong: HostArray, x: HostArray | None) -> str:
    """Which values of the tensor have a wrong gradient, if one bound parts them from the others."""
    if x is None or x.shape != wrong.shape:
        return ""
    for text, v in (("x", x), ("|x|", np.abs(x))):
        inside, outside = v[wrong], v[~wrong]
        if inside.min() > outside.max():
            return f", those with {text} > {outside.max():.3g}"
        if inside.max() < outside.min():
            return f", those with {text} < {outside.min():.3g}"
    return ""


def _axis(a: HostArray, n: HostArray, clues: Clues) -> Diagnosis | None:
    """a = n summed or averaged over an axis and spread out again; or n without its mean."""
    means = {axis: np.mean(n, axis=axis, keepdims=True) for axis in range(n.ndim) if n.shape[axis] > 1}
    for axis, mean in means.items():
        for label, times in (("summed", n.shape[axis]), ("averaged", 1)):
            is_any = n.shape[axis] * max_abs(mean) >= 1e-9 * max_abs(n)
            if is_any and agree(a, np.broadcast_to(times * mean, n.shape)):
                return Diagnosis("axis summed twice", f"it is {label} over axis {axis} once too often")
    offset = a - n
    for axis in means:
        spread = np.broadcast_to(np.mean(offset, axis=axis, keepdims=True), n.shape)
        if n.shape[axis] > 2 and agree(offset, spread):
            return Diagnosis("term missing", f"it is off by a constant along axis {axis}: is a mean over it missing?")
    return None


def _heads(a: HostArray, n: HostArray, clues: Clues) -> Diagnosis | None:
    """Columns of heads are exchanged, or heads were merged without moving their axis back."""
    heads = clues.num_heads
    if not heads or heads < 2 or n.shape[-1] % heads:
        return None
    split = (*n.shape[:-1], heads, n.shape[-1] // heads)
    for shift in range(1, heads):
        if agree(a, np.roll(n.reshape(split), shift, axis=-2).reshape(n.shape)):
            return Diagnosis("heads exchanged", f"head h holds what belongs to head h − {shift}: cross-talk")
    if n.ndim >= 2:
        mixed = np.swapaxes(n.reshape(split), -3, -2).reshape(n.shape)
        if agree(a, mixed):
            return Diagnosis("heads merged wrongly", "heads were merged without moving the head axis back")
    return None


def agree(x: HostArray, y: HostArray, size: float = 0.0) -> bool:
    """Whether two arrays are the same, to the rounding of numbers of y's size, or of this one if it is larger."""
    return x.shape == y.shape and bool(np.all(np.abs(x - y) <= AGREES * max(size, max_abs(y), 1e-300)))


def _listed(rows: set[int]) -> str:
    numbers = ", ".join(map(str, sorted(rows)))
    return f"row {numbers} is" if len(rows) == 1 else f"rows {numbers} are"
