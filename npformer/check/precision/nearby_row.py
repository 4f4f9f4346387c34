"""The row of a tensor from its errors at points nearby: the verdict, what stays there, and what would have shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from npformer.check.measures import NEGLIGIBLE, max_abs, rms, scale_of
from npformer.check.precision.formats import Format
from npformer.check.precision.nearby import POINTS, WORST, Coefficients, Errors, Places
from npformer.check.report import RIGHT, UNCLEAR, WRONG, Row
from npformer.io.percent import percent
from npformer.typing import HostArray

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
