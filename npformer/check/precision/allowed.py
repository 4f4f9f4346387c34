"""What rounding alone makes of a tensor, as atol and rtol; and what a tolerance lets see.

Over D draws of rounding, of the point and of dy, an entry n is off by |e|. One rounding of a result that is stored is
at most u·|n|, always. What is beyond has a tail: from draw to draw the largest of many errors has Gumbel's law, with
μ = mean − γβ and β = √6/π · std (γ: Euler's constant). It exceeds μ + β·ln(1/p) with probability p, so

    rtol = u + t·ρ     atol = t·α     t = mean M + (ln(1/p) − γ)·√6/π · std M     M = max (|e| − u·|n|)/(α + ρ·|n|)

The shape α : ρ is one with which an error of the tensor as a whole shows within a quarter of the earliest,
rtol + atol/max|n|; of those, the one that allows least on average, so that small entries count, too. How early an error
shows is told for a kernel that rounds nothing but its result: more rounding makes an error show earlier.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from npformer.check.measures import max_abs
from npformer.check.precision.formats import Format, rounded
from npformer.io.percent import finite, percent
from npformer.typing import HostArray, Shape

#: By this law a right kernel exceeds its tolerance once in so many tests of a tensor.
TESTS = 1e6
#: Of the earliest: a tolerance with which errors show later is no candidate.
LATER = 1.25
SHAPES = (0.0, *(2.0**k for k in range(25)))


class Drawn(NamedTuple):
    """A tensor over all draws: its entries (draws, P), their errors by rounding, and what each term adds to them."""

    exact: HostArray
    errors: HostArray
    terms: Mapping[str, HostArray]
    shape: Shape
    stored: Format


@dataclass(frozen=True)
class Allowed:
    """One tensor, an output or the gradient of an input: a tolerance, and what it lets see."""

    tensor: str  # "output 0", or the input of whose gradient it is
    shape: Shape
    atol: float
    rtol: float
    shows: float  # the smallest share by which the tensor as a whole may be wrong and be seen
    seen: tuple[str, ...]  # terms of the reference's backward whose loss it lets see
    hidden: tuple[str, ...]  # those whose loss passes
    failing: float  # the share of draws in which rounding alone exceeds it

    @property
    def name(self) -> str:
        """As a variable: y, or dx for the gradient of x."""
        if self.tensor == "the output" or self.tensor.startswith("output "):
            return "y" + self.tensor.partition(" ")[2].removeprefix("output")
        return "d" + re.sub(r"\W+", "_", self.tensor).strip("_")

    def assertion(self, function: str, more: str = "") -> str:
        """The line to paste into a test."""
        return f"{function}({self.name}, exact_{self.name}, rtol={self.rtol:.2g}, atol={self.atol:.2g}{more})"

    def sight(self) -> str:
        """What it lets see, in a line."""
        of = f"of {self.shows:.1e} shows" if self.shows else "of any size shows"
        parts = [f"an error {of}" if np.isfinite(self.shows) else "no error shows: it is 0"]
        parts += [f"so does the loss of {_quoted(self.seen)}"] if self.seen else []
        parts += [f"the loss of {_quoted(self.hidden)} PASSES"] if self.hidden else []
        parts += [f"TOO TIGHT: rounding alone exceeds it in {percent(self.failing, 0)} of draws"] * (self.failing > 0)
        return f"{self.name}: {'; '.join(parts)}"

    def to_dict(self) -> dict[str, Any]:
        """Everything, for JSON; numbers that JSON cannot hold become None."""
        return {name: finite(value) for name, value in asdict(self).items()} | {"variable": self.name}


def justified(drawn: Drawn) -> tuple[float, float]:
    """(atol, rtol) that a right kernel exceeds once in TESTS; 0 where nothing is rounded."""
    n, e = np.abs(drawn.exact), np.abs(drawn.errors)
    if not np.any(e):
        return 0.0, 0.0
    top, mean, found = max_abs(n) or 1.0, float(np.mean(n)), []
    for steep in SHAPES:
        allowed = 1 / (1 + steep) + (steep / (1 + steep)) * n / top  # α = 1/(1 + steep), ρ = steep/(1 + steep)/top
        most = np.max((e - drawn.stored.u * n) / allowed, axis=1)
        t = max(0.0, float(np.mean(most) + (np.log(TESTS) - np.euler_gamma) * 6**0.5 / np.pi * np.std(most, ddof=1)))
        atol, rtol = t / (1 + steep), t * steep / (1 + steep) / top
        found.append((atol / top + rtol + drawn.stored.u, atol + rtol * mean, atol, rtol))
    earliest = min(shows for shows, *_ in found)
    _, _, atol, rtol = min((one for one in found if one[0] <= LATER * earliest), key=lambda one: one[1])
    return _up(atol + float(drawn.stored.stored(np.zeros(())))), _up(rtol + drawn.stored.u)


def allowed(tensor: str, drawn: Drawn, atol: float, rtol: float) -> Allowed:
    """What this tolerance lets see of a tensor: predicted from the draws."""
    n = drawn.exact
    limit, e = atol + rtol * np.abs(n), rounded(n, drawn.stored) - n
    with np.errstate(all="ignore"):
        factors = np.where(n == 0, np.inf, (limit - np.sign(n) * e) / np.abs(n))
    shows = max(0.0, float(np.median(np.min(factors, axis=1)))) if np.any(limit) else 0.0
    seen = {text: bool(np.any(np.abs(lost) > limit[0])) for text, lost in drawn.terms.items() if np.any(lost)}
    failing = float(np.mean(np.any(np.abs(drawn.errors) > limit, axis=1)))
    shown, hidden = (tuple(text for text, is_seen in seen.items() if is_seen is wanted) for wanted in (True, False))
    return Allowed(tensor, drawn.shape, atol, rtol, shows, shown, hidden, failing)


def _up(x: float) -> float:
    """x with two digits, rounded up."""
    if x <= 0:
        return 0.0
    unit = 10.0 ** (np.floor(np.log10(x)) - 1)
    return float(f"{np.ceil(x / unit) * unit:.2g}")


def _quoted(texts: tuple[str, ...]) -> str:
    return ", ".join(f"`{text}`" for text in texts)
