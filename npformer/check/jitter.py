"""Measures the effect of rounding on witness and claim: both are computed again at slightly moved points."""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property

import numpy as np

from npformer.check.measures import U
from npformer.check.oracles import Oracle
from npformer.check.subject import Upstream
from npformer.typing import HostArray, HostArrays

DRAWS = 8
MOVE = 4 * U  # two units in the last place of a number just below a power of two


class Jitter:
    """The point of a check, moved by at most two units in the last place, with its upstream gradients."""

    def __init__(self, oracle: Oracle, seed: int, draws: int = DRAWS) -> None:
        self._oracle, self._seed, self._draws = oracle, seed, draws
        self.outputs = oracle.subject.outputs({})

    @cached_property
    def points(self) -> list[tuple[HostArrays, list[Upstream], list[HostArrays]]]:
        """(tensors, upstream gradients, the gradients claimed there) of each draw."""
        rng, subject, points = np.random.default_rng([self._seed, 3]), self._oracle.subject, []

        def moved(x: HostArray) -> HostArray:
            return np.asarray(x * (1 + MOVE * rng.uniform(-1, 1, size=x.shape)))

        for _ in range(self._draws):
            at = {tensor: moved(x) for tensor, x in subject.tensors.items()}
            upstreams = [tuple(moved(r) for r in upstream) for upstream in self._oracle.upstreams]
            with suppress(Exception):  # a boundary of the domain is that near
                points.append((at, upstreams, [subject.gradients(upstream, at) for upstream in upstreams]))
        return points

    def noise(self, tensor: str, direction: HostArray, true: HostArray, claimed: HostArray, cap: float) -> HostArray:
        """s + t of ``verdict.py`` along a direction, with its slope and claim, each (K,): t up to its cap."""
        of_witness, of_claim = [np.zeros(len(claimed))], [np.zeros(len(claimed))]
        for at, upstreams, gradients in self.points:
            if self._oracle.use_complex:
                there = Oracle(self._oracle.subject, upstreams).complex_step(tensor, direction, at)
                of_witness.append(np.abs(there.value - true))
            of_claim.append(np.abs(np.array([_along(direction, claim[tensor]) for claim in gradients]) - claimed))
        return np.asarray(np.max(of_witness, axis=0) + np.minimum(np.max(of_claim, axis=0), cap))

    def of_claims(self, tensor: str, claimed: HostArray) -> HostArray:
        """The largest change of each entry of a claim, for the first upstream gradient."""
        moved = [np.abs(gradients[0][tensor] - claimed) for _, _, gradients in self.points]
        return np.asarray(np.max([np.zeros(claimed.shape), *moved], axis=0))

    def fresh(self, tensor: str, direction: HostArray, count: int) -> tuple[HostArray, HostArray, HostArray]:
        """(error, reach, error estimate of the witness) along a direction, for new upstream gradients."""
        rng, subject = np.random.default_rng([self._seed, 4]), self._oracle.subject
        like = list(zip(self.outputs, self._oracle.upstreams[0], strict=True))
        upstreams = [
            tuple(np.asarray(rng.normal(size=y.shape)) * bool(np.any(r)) for y, r in like) for _ in range(count)
        ]
        oracle = Oracle(subject, upstreams, self._oracle.use_complex)
        slope = oracle.complex_step(tensor, direction) if oracle.use_complex else oracle.extrapolated(tensor, direction)
        claimed = np.array([_along(direction, subject.gradients(upstream)[tensor]) for upstream in upstreams])
        return np.abs(claimed - slope.value), slope.reach, slope.error


def _along(direction: HostArray, gradient: HostArray) -> float:
    """The sum of a gradient's entries times the direction's; entries where the direction is 0 do not count."""
    moved = direction != 0
    return float(np.sum(direction[moved] * gradient[moved]))
