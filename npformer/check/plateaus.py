"""The slopes of a forward that answers in steps: one that rounds inside, a sawtooth, an iteration that stops.

At tiny steps what is rounded stands still, at wide ones a wave is averaged away: along one direction the slope may
settle at several widths. Each such range of widths is a *plateau*.

    at a width w    L(x + w·t·v) − L(x) ≈ c₀ + c₁t + … + c_d·t^d  by least squares, d = 1, 3 or 5, at points |t| ≤ 1
    slope           c₁/w
    its error       (4·se(c₁) + |c₁ − c₁ of degree d + 2| + 1e-14·Σ|r·y|)/w, at the best d; y: the outputs that move
    plateau         a decade or more of widths whose slopes agree with the most exact one of them, within both errors
    roughness       the root mean square of the residuals beside Σ|r·y|: the size of the steps

A claim is WRONG if no plateau agrees with it. The widest one must agree for it to be right: there the rounded part
moves, too. Steps larger than a precision's rounding are no rounding: a plateau as rough as that is an average over
jumps, and counts only if no smaller steps settle.

An iteration that stops at a tolerance answers in steps, too, but far apart: ``slack_of`` measures one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from npformer.check.behaviour import counted_lines
from npformer.check.measures import loss_of, max_abs, rms, terms
from npformer.check.oracles import changes_near
from npformer.check.report import RIGHT, UNCLEAR, WRONG
from npformer.check.subject import Subject, Upstream
from npformer.typing import HostArray

POINTS, DEGREES = 49, (1, 3, 5)
#: Of the size of x; down to the second limit where all that is moved is 0, beside which any number is large.
WIDTHS, WIDTHS_AT_0 = 10.0 ** -np.arange(1, 10.01, 0.5), 10.0 ** -np.arange(1, 18.01, 0.5)
DECADE = 3  # widths
ROUNDING = 1e-14
#: Of a gradient's scale: a plateau with a larger error says nothing.
SETTLED = 1e-4
#: A plateau with larger steps is no slope of a function that rounds.
MOST_ROUGH = 1e-5
#: One with steps as of float16 or bfloat16, and an error of at most this share of the scale, lets a claim pass untold.
ROUGH, VAGUE = 1e-2, 0.1
#: So many of its errors off, a plateau does not agree: right claims are within 0.7, wrong ones of 1 % beyond 18.
APART = 2.0
#: Of the size of x: how far an iteration is moved, at random and almost to 0, where it may be done at once; at how many
#: points, and how many pairs of them are looked at.
FAR, NEARLY_0, ALONG, LOOKS, BISECTIONS = (1.0, 0.1), 0.98, 65, 2, 45
PASSES, SINGLE = 20, 10.0  # where nobody can count passes; and how much a jump is beyond what is usual there


class Plateau(NamedTuple):
    """A slope of L, with its error; width: the largest one, of the size of x."""

    slope: float
    error: float
    width: float
    roughness: float

    def agrees(self, slope: float, worth: float = 0.0) -> bool:
        """Whether another slope is this one, within both errors."""
        return abs(slope - self.slope) <= APART * self.error + worth


def plateaus(subject: Subject, tensor: str, direction: HostArray, upstreams: Sequence[Upstream]) -> list[list[Plateau]]:
    """The plateaus along a direction in a tensor, for each upstream gradient: the widest first."""
    x = subject.tensors[tensor]
    moved = x[direction != 0]
    size = (max(rms(x), rms(moved)) or 1.0) / max_abs(direction)
    widths = WIDTHS if np.any(moved) else WIDTHS_AT_0
    touched = [np.zeros(y.shape, dtype=bool) for y in subject.outputs({})]
    fitted = np.array([_fitted(subject, tensor, w * size * direction, upstreams, touched) for w in widths])  # (…, 3, K)
    return [_runs(widths, fitted[:, 0, k] / (widths * size), fitted[:, 1, k] / (widths * size), fitted[:, 2, k])
            for k in range(len(upstreams))]  # fmt: skip


def verdict(seen: Sequence[Plateau], claimed: float, scale: float, tolerance: float) -> str:
    """The verdict on a claimed slope: right, WRONG or CANNOT TELL; errors are divided by scale."""
    counted = counting(seen, scale)
    agreeing = [plateau.agrees(claimed, tolerance * scale) for plateau in counted]
    if any(agreeing):
        return RIGHT if agreeing[0] else UNCLEAR
    is_rounded = any(p.roughness <= ROUGH and p.error <= VAGUE * scale and p.agrees(claimed) for p in seen)
    return WRONG if counted and not is_rounded else UNCLEAR


def counting(seen: Sequence[Plateau], scale: float) -> list[Plateau]:
    """The plateaus that say something of a gradient of this scale."""
    settled = [plateau for plateau in seen if plateau.error <= SETTLED * scale]
    return [plateau for plateau in settled if plateau.roughness <= MOST_ROUGH or plateau is settled[-1]]


@cache
def _fits() -> tuple[HostArray, list[tuple[Any, Any, float]]]:
    """The points t, and for each degree the powers of t, their pseudo-inverse and the variance of c₁ over σ²."""
    spread = 2 / POINTS
    t = spread * (np.arange(POINTS) + np.random.default_rng(0).uniform(0.1, 0.9, POINTS)) - 1
    fits = []
    for degree in (*DEGREES, DEGREES[-1] + 2):
        powers = t[:, None] ** np.arange(degree + 1)
        inverse = np.linalg.pinv(powers)
        fits.append((powers, inverse, float(inverse[1] @ inverse[1])))
    return t, fits


def _fitted(
    subject: Subject, tensor: str, step: HostArray, upstreams: Sequence[Upstream], touched: list[HostArray]
) -> HostArray:
    """(c₁, its error, roughness) within one width, each (K,); the error is ∞ where the forward leaves its domain.

    touched: for each output, where it moved within larger widths; where it moves now is added. Only there is rounding.
    """
    t, fits = _fits()
    x, middle = subject.tensors[tensor], subject.outputs({})
    changes, largest = np.empty((POINTS, len(upstreams))), [np.zeros(y.shape) for y in middle]
    for i, at in enumerate(t):
        moves = changes_near(subject, {tensor: x + at * step}, middle)
        largest = [np.maximum(most, np.abs(move)) for most, move in zip(largest, moves, strict=True)]
        changes[i] = [loss_of(upstream, moves) for upstream in upstreams]
    if not np.all(np.isfinite(changes)):
        return np.array([0.0, np.inf, np.inf])[:, None] * np.ones(len(upstreams))
    touched[:] = [old | (most > 0) for old, most in zip(touched, largest, strict=True)]
    sizes = [where * (np.abs(y) + most) for where, y, most in zip(touched, middle, largest, strict=True)]
    sums = np.array([terms(upstream, sizes) for upstream in upstreams])
    slopes, errors, residuals = [], [], []
    for degree, (powers, inverse, variance) in zip((*DEGREES, None), fits, strict=True):
        coefficients = inverse @ changes
        slopes.append(coefficients[1])
        if degree is not None:
            squares = np.sum(np.square(changes - powers @ coefficients), axis=0)
            residuals.append(np.sqrt(squares / POINTS) / np.where(sums == 0, 1.0, sums))
            errors.append(4 * np.sqrt(variance * squares / (POINTS - degree - 1)) + ROUNDING * sums)
    errors = [error + np.abs(a - b) for error, a, b in zip(errors, slopes, slopes[1:], strict=False)]
    best, each = np.argmin(errors, axis=0), np.arange(len(upstreams))
    return np.array([np.array(part)[best, each] for part in (slopes[:-1], errors, residuals)])


def _runs(widths: HostArray, slopes: HostArray, errors: HostArray, roughness: HostArray) -> list[Plateau]:
    """The plateaus among the slopes at these widths, the widest first."""
    left, found = set(np.flatnonzero(np.isfinite(errors))), []
    for best in np.argsort(errors, kind="stable"):
        if best not in left:
            continue
        run = [best]
        for way in (-1, 1):
            i = best + way
            while i in left and abs(slopes[i] - slopes[best]) <= errors[i] + errors[best]:
                run.append(i)
                i += way
        left -= set(run)
        if len(run) >= DECADE:
            top = widths[min(run)]
            found.append(Plateau(float(slopes[best]), float(errors[best]), float(top), float(roughness[best])))
    return sorted(found, key=lambda plateau: -plateau.width)


def slack_of(subject: Subject, tensor: str, upstream: Upstream) -> float:
    """What slopes and claims may be off where the forward iterates until a tolerance is met; about 0 if it does not.

    A tensor is moved far, and two points are brought together between which the forward makes one pass more: by the
    lines that run, or, if it is not Python's, by L's distance from a polynomial. What jumps there stays, other than a
    slope or a kink. After n passes an answer is off by some n jumps, and the slope of the passes, as they are, by n²/10
    of them beside the size of x. Larger jumps than MOST_ROUGH are no tolerance's.
    """
    x, middle, slack = subject.tensors[tensor], subject.outputs({}), 0.0
    size, most = rms(x) or 1.0, MOST_ROUGH * terms(upstream, middle)

    def seen(t: float) -> _Seen:
        runs = Counter[Any]()
        with counted_lines(runs):
            changes = changes_near(subject, {tensor: x + t * way}, middle)
        return _Seen(t, loss_of(upstream, changes), runs.total(), max(runs.values(), default=0))

    def apart(p: _Seen, q: _Seen) -> float:
        return abs(q.lines - p.lines) if varies else abs(q.value - p.value - smooth(q.t) + smooth(p.t))

    def claims(p: _Seen) -> HostArray:
        with np.errstate(all="ignore"), suppress(Exception):
            return subject.gradients(upstream, {tensor: x + p.t * way})[tensor]
        return np.full(x.shape, np.nan)

    ways = [np.asarray(far * size * np.random.default_rng(0).normal(size=x.shape)) for far in FAR]
    for way in (*ways, np.asarray(x * NEARLY_0)):  # noqa: B007 - the functions above read it
        points = [seen(float(t)) for t in np.linspace(-1, 1, ALONG)]
        if not all(np.isfinite(p.value) for p in points):
            continue
        smooth = np.polynomial.Chebyshev.fit([p.t for p in points], [p.value for p in points], ALONG // 3)
        varies = len({p.lines for p in points}) > 1
        usual = float(np.median([apart(p, q) for p, q in pairwise(points)]))
        for p, q in sorted(pairwise(points), key=lambda pair: -apart(*pair))[:LOOKS]:
            for _ in range(BISECTIONS):
                half = seen((p.t + q.t) / 2)
                p, q = (p, half) if apart(p, half) >= apart(half, q) else (half, q)
            before, after = claims(p), claims(q)
            jump, of_claims = abs(q.value - p.value), max_abs(after - before)
            passes = max(p.most, q.most) if varies else PASSES
            is_jump = varies or apart(p, q) > SINGLE * usual  # not the rounding that is everywhere
            if is_jump and jump <= most and of_claims <= MOST_ROUGH * max_abs(before):
                slack = max(slack, passes**2 / 10 * jump / size + passes * of_claims)
    return slack


class _Seen(NamedTuple):
    """L at a step, how many lines of the forward ran, and how often the most frequent one."""

    t: float
    value: float
    lines: int
    most: int
