"""The reference of a kernel in low precision: gradients at places, by its backward or by the complex step."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from npformer.check.diagnosis.mutants import mutants, nested_mutants
from npformer.check.fitness import fitness
from npformer.check.inputs import Leaf
from npformer.check.measures import rms
from npformer.check.oracles import COMPLEX_H, Oracle
from npformer.check.precision.nearby import Places
from npformer.check.precision.rounding import Phased, Rounding
from npformer.check.subject import Called, Upstream
from npformer.io.progress_bar import Bar
from npformer.typing import HostArray, HostArrays, Tensors

#: A forward alone is differentiated at so many entries of a check; of more, so many are sampled, and directions.
MANY_ENTRIES, SAMPLED, DIRECTIONS = 1000, 100, 4
#: Of a backward's formula, so many terms are dropped.
MOST_TERMS = 12


class Reference:
    """A reference at the kernel's numbers.

    has_backward: it is a pair, or an object with forward and backward; else a forward alone.
    """

    def __init__(self, reference: Any, make: Callable[..., Called]) -> None:
        self.has_backward = isinstance(reference, tuple) or hasattr(reference, "backward")
        self.target = reference if self.has_backward else (_as_forward(reference), None)
        self._make, self._phased = make, Phased(self.target)
        self.subject = make(self._phased)
        self.places: dict[str, Places] = {}
        self._is_fit, self.bar = True, Bar("", 0)

    @contextmanager
    def progress(self, runs: int) -> Iterator[None]:
        """Within this context a bar on a terminal counts the forwards of so many runs of a forward alone."""
        forwards = 0 if self.has_backward else sum(len(p.entries) + len(p.directions) for p in self.places.values())
        with Bar("the reference's slopes", runs * forwards, sys.stderr if forwards else None) as self.bar:
            yield

    def look(self, claimed: Tensors, upstream: Upstream, seed: int) -> str:
        """Choose the places; returns what a reader should know of them, or "" if they are all."""
        total = sum(g.size for g in claimed.values())
        sampled = not self.has_backward and total > MANY_ENTRIES
        for k, (tensor, g) in enumerate(claimed.items()):
            if not sampled or g.size <= SAMPLED:
                self.places[tensor] = Places(np.arange(g.size), g.shape, _axes(g.shape), np.zeros((0, g.size)))
                continue
            rng = np.random.default_rng([seed, 8, k])
            large = np.argsort(-np.abs(g).ravel())[: SAMPLED // 2]
            rest = rng.choice(np.setdiff1d(np.arange(g.size), large), SAMPLED - len(large), replace=False)
            entries = np.sort(np.concatenate([large, rest]))
            self.places[tensor] = Places(entries, g.shape, (), rng.normal(size=(DIRECTIONS, g.size)))
        if self.has_backward:
            return ""
        self._is_fit = fitness(_near(self.subject, seed), [upstream], seed).is_fit
        few = sum(len(places.entries) for places in self.places.values())
        if not sampled:
            return ""
        return (
            f"a forward alone is differentiated once for each entry: {few} of {total} entries and {DIRECTIONS} random "
            "directions of each large input were looked at; a reference pair (forward, backward) lets all be looked at"
        )

    @property
    def is_seen(self) -> bool:
        """Whether the roundings of the last run went through its forward and its backward: they compute in NumPy."""
        return self._phased.is_carried

    @property
    def is_elementary(self) -> bool:
        """Whether the roundings of its backward are seen, too."""
        return self.has_backward and self.is_seen

    def gradients(self, upstream: Upstream, at: Tensors, rounding: Rounding | None = None) -> HostArrays:
        """The gradients at the places, each (P,), with the roundings of that run."""
        if self.has_backward:
            if rounding is not None:
                at, upstream = rounding.arrays(at), tuple(map(rounding.of, upstream))
            by_tensor = self._rounded(rounding, lambda: self.subject.gradients(upstream, at))
            return {tensor: self.places[tensor].of(g) for tensor, g in by_tensor.items()}
        return {tensor: self._along(tensor, upstream, dict(at), rounding) for tensor in self.places}

    def outputs(self, at: Tensors, rounding: Rounding | None = None) -> dict[str, HostArray]:
        """All of each output, with the roundings of that run: "the output", or "output 0" and so on."""
        ys = self._rounded(rounding, lambda: self.subject.outputs(at if rounding is None else rounding.arrays(at)))
        return {f"output {i}" if len(ys) > 1 else "the output": np.asarray(y) for i, y in enumerate(ys)}

    def in_float32(self, upstream: Upstream, at: Tensors) -> HostArrays:
        """What the reference errs if it runs in float32, at the places; of a forward alone, a rounding of each."""
        if not self.has_backward:
            rng = np.random.default_rng(0)
            return {t: 2.0**-24 * n * rng.normal(size=n.shape) for t, n in self.gradients(upstream, at).items()}
        exact, low = self.gradients(upstream, at), self._make(self.target, "float32").gradients(upstream, at)
        return {tensor: places.of(low[tensor]) - exact[tensor] for tensor, places in self.places.items()}

    def outputs_in_float32(self, at: Tensors) -> dict[str, HostArray]:
        """ "output i" -> what that output errs if the forward runs in float32."""
        low = self._make(self.target, "float32").outputs(at)
        return {name: low[i] - y for i, (name, y) in enumerate(self.outputs(at).items())}

    def _rounded(self, rounding: Rounding | None, run: Callable[[], Any]) -> Any:
        self._phased.rounding = rounding
        try:
            return run()
        finally:
            self._phased.rounding = None

    def _along(self, tensor: str, upstream: Upstream, at: HostArrays, rounding: Rounding | None) -> HostArray:
        places, slopes = self.places[tensor], []
        for _, direction in places.along():
            slopes.append(self._slope(tensor, direction, upstream, at, rounding))
            self.bar.move()
        return places.of(np.reshape(slopes, places.shape)) if places.axes else np.array(slopes)

    def _slope(
        self, tensor: str, direction: HostArray, upstream: Upstream, at: HostArrays, rounding: Rounding | None
    ) -> float:
        if not self._is_fit:
            return float(Oracle(self.subject, [upstream], False).extrapolated(tensor, direction, at).value[0])
        there = at | {tensor: at[tensor] + 1j * COMPLEX_H * direction}
        run = lambda: self.subject.outputs(there if rounding is None else rounding.arrays(there))  # noqa: E731
        moved = self._rounded(rounding, run)
        return sum(float(np.sum(r * np.imag(y))) for r, y in zip(upstream, moved, strict=True)) / COMPLEX_H

    def terms(self, upstream: Upstream, at: Tensors, exact: HostArrays, nested: bool = False) -> dict[str, HostArrays]:
        """What each term of the backward's formula adds to the gradients at the places, by its text.

        nested: with the terms of every backward that it calls.
        """
        if not isinstance(self.target, tuple) or not self.has_backward:
            return {}
        try:
            every = (nested_mutants if nested else mutants)(self.target[1])
            versions = [m for m in every if m.operator == "drop a term"][:MOST_TERMS]
        except Exception:  # no source
            return {}
        terms: dict[str, HostArrays] = {}
        for mutant in versions:
            try:
                with np.errstate(all="ignore"):
                    without = self._make((self.target[0], mutant.build)).gradients(upstream, at)
                lost = {tensor: exact[tensor] - self.places[tensor].of(g) for tensor, g in without.items()}
            except Exception:  # the formula does not run without it
                continue
            if any(np.any(x != 0) for x in lost.values()) and all(np.all(np.isfinite(x)) for x in lost.values()):
                terms[_dropped(mutant.before, mutant.after)] = lost
        return terms


def _near(subject: Called, seed: int) -> Called:
    """The subject at a point nearby, where it has no kink or tie that the user's point may have, at 0 neither."""
    rng, tensors = np.random.default_rng([seed, 12]), subject.tensors

    def moved(x: HostArray) -> HostArray:
        move = 0.01 * rng.uniform(-1, 1, x.shape)  # 0 moves upwards, where a square root is
        return np.where(x == 0, np.abs(move) * (rms(x) or 1.0), x * (1 + move))

    def near(leaf: Leaf) -> Any:
        if leaf.name not in subject.inputs.tensors:
            return leaf.value
        there = moved(tensors[leaf.name])
        return there.item() if isinstance(leaf.value, float) else there

    return subject.elsewhere(subject.inputs.mapped(near), subject.options, moved)


def _dropped(before: str, after: str) -> str:
    """The text of a term: what `before` has and `after` has not."""
    if before.startswith(after):
        return before.removeprefix(after).strip()
    if before.endswith(after):
        return before.removesuffix(after).strip().removesuffix("+").strip()
    return before.removesuffix(after.removeprefix("-")).strip().removesuffix("-").strip() or before


def _axes(shape: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Each axis of more than one entry, and all of them."""
    long = [i for i, n in enumerate(shape) if n > 1]
    single = [(i,) for i in long] if len(long) > 1 else []
    return (*single, tuple(range(len(shape)))) if long else ()


def _as_forward(reference: Any) -> Callable[..., Any]:
    """A forward alone as the forward of a pair."""

    def forward(*inputs: Any, **options: Any) -> Any:
        result = reference(*inputs, **options)
        return result if isinstance(result, tuple) and len(result) == 2 else (result, None)

    return forward
