"""Parts rounding from mistakes: at points nearby rounding scatters, and a mistake stays.

A kernel's gradient a and the reference's n, which is exact, are compared at K points near the user's, each of numbers
that the kernel's precision can hold. At every place, an entry, a sum over an axis, or a coefficient of the error,

    e_k = a(x_k) − n(x_k)      m = mean e_k, what stays      s = std e_k, what scatters      z² = m²/(s²/K + F²)

    F   the floor: the root mean square of what the reference itself would err if each operation, forward and backward,
        were rounded as the kernel computes inside, and the result as the kernel stores it (``rounding.py``)
    B   the same if a kernel stored every result of its backward, and constants anywhere, in its own precision
    S   the same if it stored every result of its forward, too

m is not rounding where z > 6: with twelve points a right entry gets there once in some 10,000 (Student's t), so it
counts only if the same place gets there again at twelve other points. What is not rounding may still be a constant that
is rounded once, which nobody calls a mistake:

    right        |m| ≤ L,  L = 1.5u·|n|          a constant and the result, rounded once each
    WRONG        |m| > 3B (and L)                 more than three independent roundings at their worst, √3·√3
    CANNOT TELL  between: imprecise, since the kernel rounds where the reference subtracts, or slightly wrong; or what
                 scatters is more than S explains, Σs² > 9·ΣS², and more than 1 % or 1,024u of the gradient

The coefficients are those of a regression of e on n, and on n and each term of the reference's own formula: small
errors of many entries add up there, and a coefficient of −1 names the term that is missing. A coefficient accuses only.

*Right* says what would have shown, by the same rule: the smallest error of the gradient as a whole, and which of the
reference's terms. An entry whose whole gradient would not have shown says nothing, and the row counts such entries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from npformer.check.measures import NEGLIGIBLE, max_abs, rms, scale_of
from npformer.check.oracles import unit
from npformer.check.precision.formats import Format
from npformer.check.report import RIGHT, UNCLEAR, WRONG, Row
from npformer.io.percent import percent
from npformer.typing import HostArray

POINTS = 12
DRAWS = 8
#: m is not rounding beyond so many standard deviations.
LIMIT = 6.0
#: Of u·|n|: a constant and a result that are rounded once each.
ONCE = 1.5
#: Of B and S.
WORST = 3.0


class Places(NamedTuple):
    """The places of one tensor at which errors are looked at, as a linear map of its gradient."""

    entries: HostArray  # flat indices of the entries among them
    shape: tuple[int, ...]
    axes: tuple[tuple[int, ...], ...]  # sums over these axes, of a tensor whose entries are all among them
    directions: HostArray  # (directions, size), of a tensor whose entries are sampled

    def of(self, gradient: HostArray) -> HostArray:
        """The gradient's entries, then its sums, then its parts along directions: (P,)."""
        flat = np.asarray(gradient, dtype=np.float64).reshape(-1)
        sums = [np.sum(flat.reshape(self.shape), axis=axes).reshape(-1) for axes in self.axes]
        return np.concatenate([flat[self.entries], *sums, self.directions @ flat])

    def sizes(self, gradient: HostArray) -> HostArray:
        """|n| of entries; of a sum the larger of |Σn| and (Σn²)^½: (P,)."""
        return np.asarray(np.maximum(np.abs(self.of(gradient)), np.sqrt(self.sums_of_squares(gradient))))

    def sums_of_squares(self, gradient: HostArray) -> HostArray:
        """The same map with squared weights, of squares: (P,)."""
        return self._replace(directions=np.square(self.directions)).of(np.square(gradient))

    def along(self) -> Iterator[tuple[tuple[int, ...], HostArray]]:
        """(index, direction) of each entry, then each direction, of the tensor's shape."""
        for flat in self.entries:
            index = tuple(int(i) for i in np.unravel_index(flat, self.shape))
            yield index, unit(self.shape, index)
        for i, direction in enumerate(self.directions):
            yield (i,), direction.reshape(self.shape)

    def label(self, place: int) -> str:
        """What stands at a place that is no entry."""
        place -= len(self.entries)
        for axes in self.axes:
            kept = [size for i, size in enumerate(self.shape) if i not in axes]
            count = int(np.prod(kept))
            if place < count:
                at = ",".join(str(i) for i in np.unravel_index(place, kept)) if kept else ""
                over = "all axes" if not kept else f"axis {','.join(map(str, axes))}"
                return f"the sum over {over}" + (f" at {at}" if at else "")
            place -= count
        return f"a random direction ({place + 1})"


class Errors(NamedTuple):
    """Errors at the places of one tensor, then of coefficients, at one set of points: (P + coefficients,)."""

    mean: HostArray  # m
    scatter: HostArray  # s/√K
    floor: HostArray  # F
    stored: HostArray  # B
    once: HostArray  # L
    excess: float  # √(Σs²/ΣS²) over the places
    spread: float  # the root mean square of s

    @property
    def doubt(self) -> HostArray:
        """What m must exceed to be no rounding."""
        return np.asarray(LIMIT * np.sqrt(self.scatter**2 + self.floor**2))

    @property
    def shows(self) -> HostArray:
        """What an error must exceed to show."""
        return np.maximum(self.doubt, self.once)

    @property
    def stays(self) -> HostArray:
        """Where the error is no rounding; NaN is none."""
        return np.asarray(~(np.abs(self.mean) <= self.shows))

    @property
    def is_wrong(self) -> HostArray:
        """Where it is also more than roundings of what a kernel stores."""
        return np.asarray(self.stays & ~(np.abs(self.mean) <= WORST * self.stored))


class Coefficients(NamedTuple):
    """Those of a regression of the error on n, and on n and each of the reference's terms, as sums over the places."""

    texts: tuple[str, ...]  # "" of the first, the factor
    weights: HostArray  # (coefficients, P)
    once: HostArray  # (coefficients,)

    @classmethod
    def of(cls, n: HostArray, terms: Mapping[str, HostArray], entries: int, u: float) -> Coefficients:
        """n (P,) and what each term adds to it, (P,), by its text; only the first ``entries`` places count."""
        places = np.arange(len(n)) < entries
        n = np.where(places, n, 0.0)
        columns = {"": n} | {text: np.where(places, term, 0.0) for text, term in terms.items()}
        size = float(np.linalg.norm(list(columns.values())))
        texts, weights, once = [], [], []
        for text, column in columns.items():
            w = column - n * float(column @ n) / (float(n @ n) or 1.0) if text else column
            square = float(w @ w)
            if square > 1e-6 * float(column @ column):  # else a multiple of n, whose coefficient is the factor
                texts.append(text)
                weights.append(w / square)
                once.append(ONCE * u * (max(1.0, size / square**0.5) if text else 1.0))
        return cls(tuple(texts), np.reshape(weights, (len(texts), len(n))), np.array(once))


def errors_of(
    e: HostArray, draws: list[HostArray], spacing: HostArray, once: HostArray, others: Coefficients
) -> Errors:
    """e (K, P); draws: three times (draws, P), of F, B and S; spacing (P,): of the numbers that are stored."""
    kept = np.square(spacing) / 12  # the variance of one rounding of the result
    sizes = np.sum(np.square(draws[2]), axis=1).mean() + np.sum(kept)
    kept = np.concatenate([kept, np.square(others.weights) @ kept])
    e, floor, stored = (np.hstack([x, x @ others.weights.T]) for x in (e, *draws[:2]))
    if len(e) < 3:  # nearly all neighbours overflow: nothing can be told
        mean, scatter = np.zeros(e.shape[1]), np.full(e.shape[1], np.inf)
    else:
        mean, scatter = np.mean(e, axis=0), np.std(e, axis=0, ddof=1) / len(e) ** 0.5
    squares = len(e) * float(np.sum(np.square(scatter[: len(spacing)])))
    excess = float(np.sqrt(squares / sizes)) if sizes else np.inf if squares else 0.0
    once, spread = np.concatenate([once, others.once]), (squares / len(spacing)) ** 0.5
    return Errors(mean, scatter, _rms(floor, kept), _rms(stored, kept), once, excess, spread)


def _rms(draws: HostArray, more: HostArray) -> HostArray:
    return np.asarray(np.sqrt(np.mean(np.square(draws), axis=0) + more))


def moved(x: HostArray, rng: np.random.Generator, u: float) -> HostArray:
    """A point near x: by some 2 % at most, by less where numbers are large beside their spread, by 2u at least.

    Each entry is moved by itself, and all along each axis together, so that statistics of rows are rounded anew, too.
    Moves are relative: zeros stay, and no sign changes.
    """
    most = float(np.max(np.abs(x), initial=0.0))
    if not most:
        return x
    spread = float(np.std(x)) or most
    size = max(2 * u, min(_far(u), 0.1 * spread / most, 0.15 / most if most > 1 else 1.0))
    along = [rng.uniform(-1, 1, size=[n if i == axis else 1 for i, n in enumerate(x.shape)]) for axis in range(x.ndim)]
    together = np.asarray(sum(along, start=np.asarray(rng.uniform(-1, 1)))) / (x.ndim + 1)
    return np.asarray(x * (1 + size * (rng.uniform(-1, 1, size=x.shape) + together)))


def _far(u: float) -> float:
    """2 % in bfloat16, 1 % in float16, 0.1 % where there are many digits: enough to round everything anew."""
    return float(min(0.02, max(1e-3, 5 * u)))


#: What shows must be smaller, of the gradient or of the largest entry of the tensor, or *right* would tell nothing.
TOO_COARSE = 0.2
#: Of the gradient, and in roundings: what scatters by more, and by WORST times what every stored result explains, is
#: imprecise. A kernel that keeps the logarithm of a sum loses some hundreds of roundings, and nobody minds.
ROUGH, ROUNDINGS = 0.01, 1024
#: A coefficient explains the error of a tensor if it leaves less of its squares.
UNEXPLAINED = 0.1


class Compared(NamedTuple):
    """A tensor's gradient, beside the reference's at its places."""

    tensor: str
    claimed: HostArray
    places: Places
    exact: HostArray  # (P,)
    terms: Mapping[str, HostArray]  # (P,): what each term of the reference's formula adds
    coefficients: Coefficients
    errors: list[Errors]  # at one set of points, or at two

    @property
    def entries(self) -> int:
        return len(self.places.entries)

    def everywhere(self, name: str) -> HostArray:
        """Where errors have this property at every set of points."""
        return np.asarray(np.all([getattr(errors, name) for errors in self.errors], axis=0))

    @property
    def excess(self) -> HostArray:
        """The error, of what shows."""
        errors = self.errors[0]
        with np.errstate(all="ignore"):
            share = np.abs(errors.mean) / np.where(errors.shows > 0, errors.shows, np.where(errors.mean == 0, 1.0, 0.0))
        return np.nan_to_num(share, nan=np.inf, posinf=np.inf)


def row_of(compared: Compared, precision: Format, most: float) -> Row:
    """The row; most: the largest gradient entry of the whole check."""
    a, n, errors, count = compared.claimed, compared.exact, compared.errors[0], compared.entries
    rough = min(ROUGH, ROUNDINGS * max(precision.u, precision.product))
    wrong, stays = compared.everywhere("is_wrong"), compared.everywhere("stays")
    scale, size = scale_of(n[:count], most), max(rms(n[:count]), NEGLIGIBLE * most)
    blind = (errors.doubt[:count] >= np.abs(n[:count])) & (errors.doubt[:count] > 0)
    a_here, infinite = compared.places.of(a)[:count], int(np.sum(~np.isfinite(a)))
    entry = int(np.argmax(np.where(np.isfinite(a_here), compared.excess[:count], np.inf)))
    place = tuple(int(i) for i in np.unravel_index(compared.places.entries[entry], a.shape))
    value, truth = float(a_here[entry]), float(n[entry])
    if infinite:
        verdict, note = WRONG, f"{infinite} of {a.size} entries are not finite in {precision.name}"
    elif stays.any():
        verdict, note = WRONG if wrong.any() else UNCLEAR, _what_stays(compared, wrong if wrong.any() else stays)
        note = f"in {precision.name}, {note}" + ("" if wrong.any() else "; too little to be called a mistake")
    elif all(one.excess > WORST and one.spread > rough * size for one in compared.errors):
        verdict = UNCLEAR
        much = f"{errors.excess:.2g} times as far as if every result were rounded once"
        share = percent(errors.spread / size, 1)
        note = f"in {precision.name}, errors scatter {much}, by {share} of the gradient: imprecise"
    else:
        power, squares = _Power.of(compared), np.square(n[:count])
        is_seen = power.error <= TOO_COARSE and np.sum(squares[blind]) <= 0.5 * np.sum(squares)
        is_told = bool(is_seen or max_abs(errors.doubt[:count]) <= TOO_COARSE * scale)
        verdict, note = RIGHT if is_told else UNCLEAR, f"in {precision.name}, {power.text(is_told)}"
    return Row(
        compared.tensor, a.shape, a.size, abs(value - truth) / scale, abs(value - truth) / scale, place, value, truth,
        scale, verdict, note + _underflow(n[:count], precision), unjudged=0 if infinite else int(np.sum(blind)),
    )  # fmt: skip


def _what_stays(compared: Compared, where: HostArray) -> str:
    """What stays at points nearby: a term, a factor, an entry or a sum, the simplest that says it all."""
    coefficients, errors, total = compared.coefficients, compared.errors[0], len(compared.exact)
    for i in sorted(range(len(coefficients.texts)), key=lambda i: abs(errors.mean[total + i] + 1) > 0.2):
        value, text = float(errors.mean[total + i]), coefficients.texts[i]
        if where[total + i] and _unexplained(compared, i) <= UNEXPLAINED:
            sure = float(np.hypot(errors.scatter[total + i], errors.floor[total + i]))
            if not text:
                return f"{1 + value:.5g} ± {sure:.1g} times the reference's gradient, at {POINTS} points nearby"
            if abs(value + 1) <= 0.2:
                return f"as if `{text}` were missing: {value:+.3g} ± {sure:.1g} of it, at {POINTS} points nearby"
    ranked = np.where(where, compared.excess, -1.0)
    entries = ranked[: compared.entries]
    worst = int(np.argmax(entries if np.any(entries > 0) else ranked[:total]))
    if ranked[worst] <= 0:
        worst = int(np.argmax(compared.excess[:total]))
    rounding = float(errors.floor[worst]) * 3**0.5
    size = (
        f"as if rounded {abs(float(errors.mean[worst])) / rounding:.3g} times"
        if rounding
        else "where nothing is rounded"
    )
    place = "" if worst < compared.entries else f"{compared.places.label(worst)} is off, "
    return f"{place}{size}, at {POINTS} points nearby"


def _unexplained(compared: Compared, which: int) -> float:
    """The share of the squared errors of entries that remains without n and the term of this coefficient."""
    e, columns = compared.errors[0].mean[: compared.entries], [compared.exact[: compared.entries]]
    if text := compared.coefficients.texts[which]:
        columns.append(compared.terms[text][: compared.entries])
    rest = e - np.array(columns).T @ np.linalg.lstsq(np.array(columns).T, e, rcond=None)[0]
    return float(rest @ rest / (e @ e or 1.0))


def _underflow(n: HostArray, precision: Format) -> str:
    """A clause on entries that a format with few exponents holds with fewer digits, or not at all."""
    low = int(np.sum((np.abs(n) < precision.smallest) & (np.abs(n) > precision.smallest * 1e-9)))
    if precision.name != "float16" or not low:
        return ""
    return f"; {low} of {n.size} entries are below float16's smallest normal number, 6.1e-05: scale the loss"


class _Power(NamedTuple):
    """What would have shown: the smallest error of the gradient as a whole, and which of the reference's terms."""

    error: float
    shown: tuple[str, ...]
    hidden: tuple[str, ...]

    @classmethod
    def of(cls, compared: Compared) -> _Power:
        shows, weights = compared.errors[0].shows, compared.coefficients.weights

        def extended(x: HostArray) -> HostArray:
            return np.asarray(np.abs(np.concatenate([x, weights @ x])))

        with np.errstate(divide="ignore", invalid="ignore"):
            errors = shows / extended(compared.exact)
        shown = {text: bool(np.any(extended(lost) > shows)) for text, lost in compared.terms.items() if np.any(lost)}
        return cls(
            float(np.min(errors[np.isfinite(errors)], initial=np.inf)),
            tuple(text for text, is_shown in shown.items() if is_shown),
            tuple(text for text, is_shown in shown.items() if not is_shown),
        )

    def text(self, is_told: bool) -> str:
        """The clause of a row."""
        if not is_told:
            return "most of the gradient is less than what scatters at points nearby: too little would have shown"
        parts = [f"an error of {self.error:.1e} of the gradient would have shown"]
        parts += [f"so would the loss of {_listed(self.shown)}"] if self.shown else []
        parts += [f"the loss of {_listed(self.hidden)} would not"] if self.hidden else []
        return "; ".join(parts)


def _listed(texts: tuple[str, ...]) -> str:
    return ", ".join(f"`{text}`" for text in texts[:4]) + (f" and {len(texts) - 4} more" if len(texts) > 4 else "")
