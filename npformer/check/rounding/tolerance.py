"""The tolerance that a test of a kernel may have: what rounding justifies, measured on the reference's own formula.

The reference runs in float64 at numbers that the precision can hold. It runs again with every operation moved as a
kernel would round it (``stochastic.py``): each result is stored in the precision, sums are added up in float32, one
term after the other in any order, functions such as exp are right to one unit in its last place. In formats of eight
bits only inputs, outputs and gradients are stored. A kernel may multiply a backward's sum of two arrays out, so its
terms are rounded once more. Each draw has its own roundings and dy, at a point nearby, or at one that ``sample`` draws.

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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from npformer.check.inputs import parameter_names
from npformer.check.measures import max_abs
from npformer.check.prepared import Constants, prepared
from npformer.check.report import FAILS, HOLDS, Claim, Report
from npformer.check.rounding.formats import FORMATS, STORED, Format, format_named, rounded, rounded_inputs, sums_in
from npformer.check.rounding.reference import Reference, moved
from npformer.check.rounding.stochastic import Level, Rounding
from npformer.check.subject import Upstream, name_of
from npformer.errors import ConfigError
from npformer.io.percent import percent
from npformer.typing import HostArray, HostArrays, Shape, Values

#: By this law a right kernel exceeds its tolerance once in so many tests of a tensor.
TESTS = 1e6
#: Of the earliest: a tolerance with which errors show later is no candidate.
LATER = 1.25
SHAPES = (0.0, *(2.0**k for k in range(25)))


class DrawnErrors(NamedTuple):
    """A tensor over all draws: its entries (draws, P), their errors by rounding, and what each term adds to them."""

    exact: HostArray
    errors: HostArray
    terms: Mapping[str, HostArray]
    shape: Shape
    stored: Format


@dataclass(frozen=True, kw_only=True)
class Allowed(Claim):
    """Of one tensor, "output 0" or the input of whose gradient it is: a tolerance, and what it lets see."""

    shape: Shape
    atol: float
    rtol: float
    shows: float  # the smallest share by which the tensor as a whole may be wrong and be seen
    seen: tuple[str, ...]  # terms of the reference's backward whose loss it lets see
    hidden: tuple[str, ...]  # those whose loss passes
    failing: float  # the share of draws in which rounding alone exceeds it

    @property
    def variable(self) -> str:
        """Its name in a test: y, or dx for the gradient of x."""
        if self.name == "the output" or self.name.startswith("output "):
            return "y" + self.name.partition(" ")[2].removeprefix("output")
        return "d" + re.sub(r"\W+", "_", self.name).strip("_")

    def assertion(self, function: str, more: str = "") -> str:
        """The line to paste into a test."""
        y = self.variable
        return f"{function}({y}, exact_{y}, rtol={self.rtol:.2g}, atol={self.atol:.2g}{more})"

    def to_dict(self) -> dict[str, Any]:
        """Everything, for JSON, with both names."""
        return super().to_dict() | {"tensor": self.name, "variable": self.variable}


def justified(drawn: DrawnErrors) -> tuple[float, float]:
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


def allowed(tensor: str, drawn: DrawnErrors, atol: float, rtol: float) -> Allowed:
    """What this tolerance lets see of a tensor: predicted from the draws."""
    n = drawn.exact
    limit, e = atol + rtol * np.abs(n), rounded(n, drawn.stored) - n
    with np.errstate(all="ignore"):
        factors = np.where(n == 0, np.inf, (limit - np.sign(n) * e) / np.abs(n))
    shows = max(0.0, float(np.median(np.min(factors, axis=1)))) if np.any(limit) else 0.0
    seen = {text: bool(np.any(np.abs(lost) > limit[0])) for text, lost in drawn.terms.items() if np.any(lost)}
    failing = float(np.mean(np.any(np.abs(drawn.errors) > limit, axis=1)))
    shown, hidden = (tuple(text for text, is_seen in seen.items() if is_seen is wanted) for wanted in (True, False))
    of = f"of {shows:.1e} shows" if shows else "of any size shows"
    parts = [f"an error {of}" if np.isfinite(shows) else "no error shows: it is 0"]
    parts += [f"so does the loss of {_quoted(shown)}"] if shown else []
    parts += [f"the loss of {_quoted(hidden)} PASSES"] if hidden else []
    parts += [f"TOO TIGHT: rounding alone exceeds it in {percent(failing, 0)} of draws"] * (failing > 0)
    verdict = FAILS if failing or hidden else HOLDS
    return Allowed(
        tensor, "no right kernel fails, and no loss of a term passes", verdict, "; ".join(parts),
        shape=drawn.shape, atol=atol, rtol=rtol, shows=shows, seen=shown, hidden=hidden, failing=failing,
    )  # fmt: skip


def _up(x: float) -> float:
    """x with two digits, rounded up."""
    if x <= 0:
        return 0.0
    unit = 10.0 ** (np.floor(np.log10(x)) - 1)
    return float(f"{np.ceil(x / unit) * unit:.2g}")


def _quoted(texts: tuple[str, ...]) -> str:
    return ", ".join(f"`{text}`" for text in texts)


DRAWS = 64
#: Of a forward alone, which runs once for each entry, and of code outside of NumPy.
FEWER = 16
#: Half a spacing of numbers of all sizes, as a share of u: the root mean square, √((1 − ¼)/(2·ln 2)).
HALF = (0.75 / (2 * np.log(2))) ** 0.5
#: Of u in float32: what a function such as exp errs before its result is rounded, one unit in the last place.
FUNCTION = 2.0
#: Of the spread of each point around the user's.
NEAR = 2.0**-8


@dataclass(frozen=True, repr=False)
class Tolerances(Report):
    """The tolerance of each output and gradient; ``str()`` has lines to paste, ``check(atol, rtol)`` tries others."""

    claims: tuple[Allowed, ...] = ()
    precision: str = "float32"
    drawn: dict[str, DrawnErrors] = field(default_factory=dict, compare=False)

    def check(self, atol: float = 0.0, rtol: float = 0.0) -> Tolerances:
        """What this tolerance lets see of each tensor, and whether rounding alone exceeds it."""
        if not (atol >= 0 and rtol >= 0 and np.isfinite(atol + rtol)):
            raise ConfigError(f"atol, rtol: expected two finite numbers >= 0, got {atol} and {rtol}")
        return replace(self, claims=tuple(allowed(name, drawn, atol, rtol) for name, drawn in self.drawn.items()))

    def to_dict(self) -> dict[str, Any]:
        """Everything, for JSON; its claims are rows."""
        told = super().to_dict()
        return {"precision": self.precision, "rows": told.pop("claims"), **told}

    def lines(self, columns: int = 80) -> list[str]:
        """Lines to paste, however long, and what they let see."""
        head = f"# {self.name} in {self.precision}; exact_…: the reference in float64 at the same numbers"
        sights = [f"# {row.variable}: {row.reason}" for row in self.claims]
        return [head, *self.remarks(), *sights, *(f"# note: {note}" for note in self.notes)]

    def remarks(self) -> list[str]:
        """The lines to paste."""
        numpy = [row.assertion("numpy.testing.assert_allclose") for row in self.claims]
        return numpy + [row.assertion("torch.testing.assert_close", ", check_dtype=False") for row in self.claims]


def tolerance(
    reference: Any,
    *inputs: Any,
    precision: str = "float32",
    accumulate: str | None = None,
    atol: float | None = None,
    rtol: float | None = None,
    names: Sequence[str] | None = None,
    constant: Constants = (),
    sample: Callable[[np.random.Generator], Sequence[Any]] | None = None,
    seed: int = 0,
    **options: Any,
) -> Tolerances:
    """The atol and rtol that rounding justifies for a kernel of reference's formula, at inputs of these shapes.

    reference: a pair, a layer, or a forward alone, as of ``npf.gradcheck``, which should have checked it; it runs in
    float64. A pair in NumPy is best: each of its operations is rounded. precision: what the kernel stores numbers in,
    "float32", "tf32" (float32 with such products), "bfloat16", "float16", "float8_e4m3" or "float8_e5m2"; accumulate:
    what it adds up in (default float32). dy is drawn from normal numbers, or 1 for a single number, such as a loss. The
    margin is one failure in a million tests, by the law that fits the draws.

    atol, rtol: a tolerance of yours. The result then says of each tensor the smallest error that it lets see, the terms
    of the reference's backward whose loss passes, and whether rounding alone exceeds it. sample: sample(rng) gives
    inputs; the tolerance then holds for all that it draws, and else for inputs near yours. names, constant, options:
    as of ``npf.gradcheck``. Raises ConfigError for another precision, or a reference that is not finite.
    """
    stored = format_named("precision", precision, STORED)
    points = _Points(reference, stored, sums_in(accumulate, stored), names, constant, options, seed, len(inputs))
    at = None if sample is None else (lambda i: sample(np.random.default_rng([seed, 51, i])))
    drawn = points.drawn(inputs, at)
    claims = tuple(allowed(tensor, one, *justified(one)) for tensor, one in drawn.items())
    notes = tuple(sorted(points.notes - {""}))
    found = Tolerances(name_of(reference), notes=notes, claims=claims, precision=precision, drawn=drawn)
    return found if atol is None and rtol is None else found.check(atol or 0.0, rtol or 0.0)


class _Points:
    """The reference at one point after the other, exact and rounded."""

    def __init__(
        self,
        reference: Any,
        stored: Format,
        sums: Format,
        names: Any,
        constant: Any,
        options: Any,
        seed: int,
        count: int,
    ) -> None:
        self._target, self._stored, self._seed = reference, stored, seed
        self._is_quick = isinstance(reference, tuple) or hasattr(reference, "backward")
        self._named = names if names or self._is_quick else parameter_names(reference, count)
        self._constant, self._options = constant, options
        self.notes: set[str] = set()
        self._inside = stored if stored.name in FORMATS else FORMATS["float32"]
        u = min(self._inside.u, 2.0**-24)
        product, in_turn = stored.product if stored.name == "tf32" else 0.0, HALF * max(u, sums.u)
        self._level = Level(
            0.0, product, constant=stored.u, stored=self._inside, function=FUNCTION * u, in_turn=in_turn
        )

    def drawn(self, inputs: Sequence[Any], at: Callable[[int], Sequence[Any]] | None) -> dict[str, DrawnErrors]:
        """Every tensor over all draws, near the inputs or at(i)."""
        draws: list[Values] = []
        while len(draws) < (DRAWS if self._is_quick else FEWER):
            i = len(draws)
            draws.append(self._draw(inputs if at is None else at(i), i, at is None))
        found: dict[str, DrawnErrors] = {}
        for name, (_, _, lost, shape) in draws[0].items():
            exact, errors = (np.array([draw[name][k] for draw in draws]) for k in (0, 1))
            found[name] = DrawnErrors(exact, errors, lost, shape, self._stored)
        bad = [name for name, one in found.items() if not np.all(np.isfinite([one.exact, one.errors]))]
        if bad:
            raise ConfigError(f"reference: expected finite numbers at these inputs, got others in {', '.join(bad)}")
        return found

    def _draw(self, inputs: Sequence[Any], i: int, is_near: bool) -> Values:
        """(exact, errors, terms, shape) of each output and gradient, entry by entry, with the roundings of draw i."""
        ready = rounded_inputs(prepared(self._target, inputs, self._named, self._constant), self._stored)
        reference = Reference(self._target, ready, self._options, names=self._named)
        rng = np.random.default_rng([self._seed, 52, i])
        at = {name: moved(x, rng, NEAR) if is_near else x for name, x in reference.subject.tensors.items()}
        at = {name: rounded(x, self._stored) for name, x in at.items()}
        shapes = [y.shape for y in reference.outputs(at).values()]
        upstream = tuple(rounded(rng.normal(size=shape), self._stored) if shape else np.ones(()) for shape in shapes)
        claimed = reference.subject.gradients(upstream, at) if reference.has_backward else at
        self.notes.add(reference.look(claimed, upstream, self._seed))
        ys, n = reference.outputs(at), reference.gradients(upstream, at)
        terms = {} if i else reference.terms(upstream, at, n, nested=True)
        errors = self._errors(reference, at, upstream, i, ys | n)
        if self._inside is not self._stored:
            errors = {name: rounded(x + errors[name], self._stored) - x for name, x in (ys | n).items()}
        drawn = {}
        for name, x in (ys | n).items():
            count = len(reference.places[name].entries) if name in reference.places else x.size
            lost = {text: one[name][:count] for text, one in terms.items() if name in one}
            shape = reference.places[name].shape if name in reference.places else x.shape
            drawn[name] = (x.ravel()[:count], errors[name].ravel()[:count], lost, shape)
        return drawn

    def _errors(
        self, reference: Reference, at: HostArrays, upstream: Upstream, i: int, exact: HostArrays
    ) -> HostArrays:
        """What the reference errs with the roundings of draw i, outputs and gradients at their places."""
        rounding = Rounding([self._seed, 53, i], self._level, self._level._replace(apart=True))
        run = reference.outputs(at, rounding) | reference.gradients(upstream, at, rounding)
        if reference.is_seen:
            return {name: run[name] - n for name, n in exact.items()}
        self._is_quick = False
        self.notes.add("the reference computes outside of NumPy: what it errs in float32 stands for its noise")
        low = reference.outputs_in_float32(at) | reference.in_float32(upstream, at)
        return {name: max(self._inside.u, self._level.product) / 2.0**-24 * e for name, e in low.items()}
