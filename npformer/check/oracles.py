"""Derivatives without a derivation: two independent witnesses to compare with the analytic gradient.

Complex step. For an analytic function,

    f(x + ih) = f(x) + ih·f'(x) − h²·f''(x)/2 − ih³·f'''(x)/6 + …        f'(x) ≈ Im f(x + ih)/h

Nothing is subtracted, so h = 1e-30 loses no digits: −h²f''/2 is real and Im drops it, −h²f'''/6 stays and is
1e-60. A kink of ReLU is never crossed: the real part does not move. Source: Squire & Trapp 1998, SIAM Review 40.
It needs a forward that is analytic as it is written: abs, conj or a cast to real break it (``fitness.py``).

Central differences. D(h) = (f(x + h) − f(x − h))/2h is off by h²f'''/6 and by rounding of about u·|f|/h. Two of
them cancel the first term, which is Richardson's extrapolation:

    R(h) = (4·D(h/2) − D(h))/3           off by O(h⁴), about 1e-12 in float64 where h is chosen well

h is halved, from 3·u^(1/5) of the size of x downwards, until two neighbours R(h), R(h/2) agree; their
difference is R's error estimate. If they never agree, there is a kink between the points, or noise: the witness cannot
tell. Differences of high order measure a forward's noise, for example of one that rounds to float32 inside, since
everything smooth cancels in them: Δ⁶y of noise σ has the variance 924·σ². Sources: Richardson 1911, Phil. Trans. Royal
Society A 210; Sauer, "Numerical Analysis", 5.1 (step sizes); Moré & Wild 2011, SIAM J. Sci. Comput. 33 (noise).

Both use L = Σ r·y for several random upstream gradients r at once: y is moved once, and multiplied by each r.
Differences of y are taken before the sum, so outputs that do not move add no noise. The *reach* is the change of L
if nothing cancelled, Σ_j |r_j ∂y_j|: an entry's error is relative to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from npformer.check.measures import U, loss_of, max_abs, rms
from npformer.check.subject import Subject, Upstream
from npformer.typing import HostArray, HostArrays, Shape, Tensors

COMPLEX_H = 1e-30
#: The relative step of the central difference that confirms a complex step.
CENTRAL_H = 5e-6
#: Relative to the reach: two witnesses this near to each other agree.
SAME = 5e-8
#: Relative to the reach: R and its neighbour agree well enough that no smaller h is tried.
GOOD = 1e-12
HALVINGS = 20
#: The least number of R(h).
SETTLING = 3
#: Of the size of x, for the points at which a forward's noise is looked for; and which differences tell it.
NOISE_STEP, FAR_STEP, NOISE_ORDER, NOISE_POINTS = 3e-6, 3e-4, 6, 9
#: Times the noise of small steps: that of larger ones counts if it is more, beyond the scatter of such estimates.
MUCH_MORE = 4.0


def outputs_near(subject: Subject, replaced: Tensors, here: Sequence[HostArray]) -> tuple[HostArray, ...]:
    """The outputs at another point; NaN, like those here, where the forward refuses it: a boundary of its domain."""
    try:
        with np.errstate(all="ignore"):
            there = subject.outputs(replaced)
    except Exception:  # whatever it raises
        there = ()
    if len(there) != len(here) or any(y.shape != at.shape for y, at in zip(there, here, strict=True)):
        return tuple(np.full(y.shape, np.nan) for y in here)
    return there


def changes_near(subject: Subject, replaced: Tensors, here: Sequence[HostArray]) -> list[HostArray]:
    """By how much the outputs at another point differ from those here."""
    return list(map(np.subtract, outputs_near(subject, replaced, here), here))


def slope_of(subject: Subject, upstream: Upstream, at: Tensors, tensor: str, direction: HostArray) -> float:
    """The slope of L along a direction by the complex step, at these tensors."""
    outputs = subject.outputs({**at, tensor: at[tensor] + 1j * COMPLEX_H * direction})
    return loss_of(upstream, [np.imag(np.asarray(y)) for y in outputs]) / COMPLEX_H


class Slope(NamedTuple):
    """A witness's slope of L along one direction, for each of K upstream gradients: (K,)."""

    value: HostArray
    error: HostArray  # the witness's error estimate
    reach: HostArray


class Evidence(NamedTuple):
    """Both witnesses' slopes for one tensor, for each of K upstream gradients: (K, *shape), or (K, directions)."""

    by_complex: HostArray | None  # None: the complex step is not valid for the forward
    by_central: HostArray
    central_error: HostArray
    reach: HostArray

    @property
    def truth(self) -> HostArray:
        """The better of the two witnesses."""
        return self.by_central if self.by_complex is None else self.by_complex


class Oracle:
    """Both witnesses of a subject, at its own point; use_complex False leaves the complex step out."""

    def __init__(self, subject: Subject, upstreams: Sequence[Upstream], use_complex: bool = True) -> None:
        self.subject, self.upstreams, self.use_complex = subject, list(upstreams), use_complex
        self._here = subject.outputs({})
        self.rounding = max((_unit_roundoff(y) for y in self._here), default=U)
        self.on_place: Callable[[], object] = lambda: None  # called after each element or direction
        self._noise: dict[str, list[HostArray]] = {}

    def evidence(self, tensor: str, along: Sequence[HostArray] | None = None) -> Evidence:
        """The slopes along directions in a tensor, (K, directions); without any, of each element, (K, *shape)."""
        x = self.subject.tensors[tensor]
        shape = x.shape if along is None else (len(along),)
        arrays: list[HostArray] = [np.zeros((len(self.upstreams), *shape)) for _ in range(4)]
        places: Any = units(x.shape) if along is None else (((i,), d) for i, d in enumerate(along))
        for index, direction in places:
            if along is None and not np.isfinite(x[index]):
                continue
            for array, value in zip(arrays, self.along(tensor, direction), strict=True):
                array[(slice(None), *index)] = value
            self.on_place()
        return Evidence(arrays[0] if self.use_complex else None, *arrays[1:])

    def along(self, tensor: str, direction: HostArray) -> tuple[HostArray, HostArray, HostArray, HostArray]:
        """(by complex, by central, its error, reach) along one direction, each (K,).

        A central difference with one h confirms the complex step where it agrees; where it does not, or where there
        is no complex step, it is extrapolated.
        """
        truth = None
        if self.use_complex:
            truth = self.complex_step(tensor, direction)
            near, (noise, _) = self.difference(tensor, direction, CENTRAL_H, {}, noise_too=False)
            apart = np.abs(near - truth.value)
            if np.all(apart <= SAME * np.abs(truth.value) + 4 * noise):
                return truth.value, near, apart, truth.reach
        central = self.extrapolated(tensor, direction)
        truth = truth or central
        return truth.value, central.value, central.error, truth.reach

    def complex_step(self, tensor: str, direction: HostArray, at: HostArrays | None = None) -> Slope:
        """By the complex step; at: tensors that are elsewhere than at the subject's point."""
        x = self.subject.tensors[tensor] if at is None else at[tensor]
        moved = self.subject.outputs((at or {}) | {tensor: x + 1j * COMPLEX_H * direction})
        if [y.shape for y in moved] != [y.shape for y in self._here]:
            raise TypeError("outputs have another shape for complex inputs")
        terms = self._weighted([np.imag(y) / COMPLEX_H for y in moved])
        return Slope(_sums(terms), np.zeros(len(terms)), _sums([list(map(np.abs, parts)) for parts in terms]))

    def difference(
        self,
        tensor: str,
        direction: HostArray,
        h: float,
        at: HostArrays,
        touched: list[Any] | None = None,
        noise_too: bool = True,
    ) -> tuple[HostArray, tuple[HostArray, HostArray]]:
        """D(h), with (its rounding, its reach): each (K,). Not finite where a point is outside of the domain.

        touched: for each output, where it moved by larger steps; where it moves now is added. Only there is rounding.
        noise_too False omits the measurement of noise beyond the rounding of y itself.
        """
        x = at.get(tensor, self.subject.tensors[tensor])
        above, below = (self._near(at | {tensor: x + step * direction}) for step in (h, -h))
        moves = [np.asarray(a - b, dtype=np.float64) / (2 * h) for a, b in zip(above, below, strict=True)]
        reached = [
            ((move != 0) & ~np.isnan(move)) | old
            for move, old in zip(moves, touched or [False] * len(moves), strict=True)
        ]
        if touched is not None:
            touched[:] = reached
        sigmas = self._noise_of(tensor) if noise_too else [np.zeros(())] * len(moves)
        sizes = [
            np.where(where, _noise_at(np.abs(b), sigma, np.where(move != 0, _unit_roundoff(b), 0)), 0) / h
            for where, move, b, sigma in zip(reached, moves, below, sigmas, strict=True)
        ]
        terms = self._weighted(moves)
        noise = np.sqrt(_sums([[np.square(x) for x in parts] for parts in self._weighted(sizes)]))
        return _sums(terms), (noise, _sums([[np.abs(x) for x in parts] for parts in terms]))

    def _near(self, replaced: HostArrays) -> tuple[HostArray, ...]:
        return outputs_near(self.subject, replaced, self._here)

    def _weighted(self, parts: Sequence[HostArray]) -> list[list[HostArray]]:
        """Each part of the outputs times r, for each upstream gradient."""
        return [[r * part for r, part in zip(upstream, parts, strict=True)] for upstream in self.upstreams]

    def extrapolated(self, tensor: str, direction: HostArray, at: HostArrays | None = None) -> Slope:
        """R(h) at the h with the smallest error estimate.

        It is off by as much as its neighbour says, and by what all smaller steps say of the rounding ν of the
        function: a change of R from one h to the next is then about ν/h. Two neighbours agree by luck now and then.
        """
        at = at or {}
        h = self._first_step(at.get(tensor, self.subject.tensors[tensor]), direction)
        differences = []
        tried = []
        touched: list[Any] = []
        with np.errstate(all="ignore"):
            for _ in range(HALVINGS):
                now, (noise, reach) = self.difference(tensor, direction, h, at, touched)
                differences.append(now)
                if len(differences) > 2:
                    wide, middle, near = differences[-3:]
                    value = (4 * middle - wide) / 3
                    change = np.abs((4 * near - middle) / 3 - value) + 2 * noise
                    stuck = (now == 0) & np.any(np.array(differences) != 0, axis=0)  # the step is too small to move y
                    change = np.where(np.isfinite(change), change, np.inf)
                    tried.append(_Tried(4 * h, value, change, reach, stuck))
                    if _is_enough(tried):
                        break
                h /= 2
        return _best(tried)

    def _noise_of(self, tensor: str) -> list[HostArray]:
        """σ of each output entry as a tensor moves: the larger of those by small and by larger steps."""
        if tensor not in self._noise:
            x = self.subject.tensors[tensor]
            rng = np.random.default_rng(x.size)
            sizes = rng.choice([-1.0, 1.0], size=x.shape) * rng.uniform(0.5, 1.5, size=x.shape)  # no entry stays
            direction = np.asarray(sizes * (rms(x) or 1.0))
            near, far = max(NOISE_STEP, 8 * self.rounding), FAR_STEP
            looks = [self._look_for_noise(tensor, x, direction, side) for side in (near, -near, far)]
            sigmas = [np.minimum(a, b) for a, b in zip(*looks[:2], strict=True)]  # a kink looks like noise
            # a forward that rounds inside, as 1 + tanh(x), may stay where it is for small steps: σ is too small there
            usual = [np.maximum(b, U * np.abs(y)) for b, y in zip(sigmas, self._here, strict=True)]
            if any(np.any(a > MUCH_MORE * b) for a, b in zip(looks[2], usual, strict=True)):
                behind = self._look_for_noise(tensor, x, direction, -far)
                sigmas = [np.maximum(a, np.minimum(b, c)) for a, b, c in zip(sigmas, looks[2], behind, strict=True)]
            self._noise[tensor] = sigmas
        return self._noise[tensor]

    def _look_for_noise(self, tensor: str, x: HostArray, direction: HostArray, step: float) -> list[HostArray]:
        """σ by steps of this size, ahead or, below 0, behind."""
        points = [self._near({tensor: x + step * i * direction}) for i in range(NOISE_POINTS)]
        sigmas = []
        for values in zip(*points, strict=True):
            differences = np.diff(np.array(values, dtype=np.float64), n=NOISE_ORDER, axis=0)
            sigma = np.sqrt(np.mean(np.square(differences), axis=0) / math.comb(2 * NOISE_ORDER, NOISE_ORDER))
            sigmas.append(np.where(np.isfinite(sigma), sigma, 0.0))
        return sigmas

    def _first_step(self, x: HostArray, direction: HostArray) -> float:
        """Of the size of x where the direction moves it, or of all x, whichever is larger; 1 if x is 0."""
        moved = x[direction != 0]
        typical = max(rms(x), rms(moved)) or 1.0
        return float(3 * self.rounding**0.2 * typical / max_abs(direction))


def units(shape: Shape) -> Iterator[tuple[tuple[int, ...], HostArray]]:
    """(index, 1 there and 0 elsewhere) for each element."""
    for index in np.ndindex(shape):
        yield index, unit(shape, index)


def unit(shape: Shape, index: tuple[Any, ...]) -> HostArray:
    """1 at an index, 0 elsewhere."""
    direction = np.zeros(shape)
    direction[index] = 1.0
    return direction


class _Tried(NamedTuple):
    """R at one h, for each upstream gradient (K,)."""

    h: float
    value: HostArray
    change: HostArray  # the difference to the next R, at half of h
    reach: HostArray
    stuck: HostArray  # whether the next step moves nothing: not to be chosen, though its change shows the rounding


def _is_enough(tried: list[_Tried]) -> bool:
    """Whether the last step, with the one before it, is as good as can be; or a good one lies three steps back."""
    if len(tried) < SETTLING:
        return False
    change = np.where(tried[-1].stuck, np.inf, tried[-1].change)
    if np.all(np.maximum(change, tried[-2].change / 16) <= GOOD * tried[-1].reach):
        return True
    best = _best(tried)
    return bool(np.all(best.error <= SAME * best.reach) and np.all(change > best.error))


def _best(tried: list[_Tried]) -> Slope:
    """For each upstream gradient the R with the smallest error estimate."""
    h, values, changes, reach, stuck = (np.array(column) for column in zip(*tried, strict=True))
    sizes = h.reshape(-1, 1)
    errors = np.maximum.accumulate((changes * sizes)[::-1])[::-1] / sizes
    errors[1:] = np.maximum(errors[1:], changes[:-1] / 16)
    errors = np.where(stuck, np.inf, errors)
    chosen = np.argmin(errors, axis=0)
    columns = np.arange(values.shape[1])
    return Slope(values[chosen, columns], errors[chosen, columns], reach[chosen, columns])


def _noise_at(y: HostArray, sigma: HostArray, u: HostArray) -> HostArray:
    """The rounding of each output entry: its measured noise or that of all, since a single one may look smooth."""
    typical = float(np.linalg.norm(sigma)) / (float(np.linalg.norm(y)) or 1.0)
    return np.asarray(np.maximum(np.maximum(u, typical) * y, sigma))


def _sums(terms: list[list[HostArray]]) -> HostArray:
    return np.array([sum(float(np.add.reduce(term, axis=None)) for term in parts) for parts in terms])


def _unit_roundoff(y: HostArray) -> float:
    """The unit roundoff of y's dtype; that of float64 unless y is floating-point."""
    return float(np.finfo(y.dtype).eps) / 2 if y.dtype.kind == "f" else U
