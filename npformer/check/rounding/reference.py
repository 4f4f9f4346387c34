"""The reference of a kernel in low precision: gradients at places, by its backward or by the complex step."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from npformer.check.causes.mutants import mutants, nested_mutants
from npformer.check.fitness import fitness
from npformer.check.inputs import Leaf
from npformer.check.measures import rms
from npformer.check.oracles import Oracle, slope_of, unit
from npformer.check.rounding.stochastic import Phased, Rounding
from npformer.check.subject import NO_OPTIONS, Subject, Upstream
from npformer.io.progress_bar import Bar
from npformer.typing import Function, HostArray, HostArrays, Named, Shape, Tensors

#: A forward alone is differentiated at so many entries of a check; of more, so many are sampled, and directions.
MANY_ENTRIES, SAMPLED, DIRECTIONS = 1000, 100, 4
#: Of a backward's formula, so many terms are dropped.
MOST_TERMS = 12


class Places(NamedTuple):
    """The places of one tensor at which errors are looked at, as a linear map of its gradient."""

    entries: HostArray  # flat indices of the entries among them
    shape: Shape
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


class Reference:
    """A reference at the kernel's numbers.

    options, how: as for ``Subject``. has_backward: it is a pair, or an object with forward and backward; else a forward
    alone.
    """

    def __init__(self, reference: Any, inputs: Sequence[Any], options: Named = NO_OPTIONS, **how: Any) -> None:
        self.has_backward = isinstance(reference, tuple) or hasattr(reference, "backward")
        self.target = reference if self.has_backward else (_as_forward(reference), None)
        self._phased = Phased(self.target)
        self.subject = Subject(self._phased, inputs, options, **how)
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

    def gradients(self, upstream: Upstream, at: Tensors, rounding: Rounding | None = None) -> HostArrays:
        """The gradients at the places, each (P,), with the roundings of that run."""
        if self.has_backward:
            if rounding is not None:
                at, upstream = rounding.arrays(at), tuple(map(rounding.of, upstream))
            by_tensor = self._phased.run(rounding, lambda: self.subject.gradients(upstream, at))
            return {tensor: self.places[tensor].of(g) for tensor, g in by_tensor.items()}
        return {tensor: self._along(tensor, upstream, dict(at), rounding) for tensor in self.places}

    def outputs(self, at: Tensors, rounding: Rounding | None = None) -> dict[str, HostArray]:
        """All of each output, with the roundings of that run: "the output", or "output 0" and so on."""
        ys = self._phased.run(rounding, lambda: self.subject.outputs(at if rounding is None else rounding.arrays(at)))
        return {f"output {i}" if len(ys) > 1 else "the output": np.asarray(y) for i, y in enumerate(ys)}

    def in_float32(self, upstream: Upstream, at: Tensors) -> HostArrays:
        """What the reference errs if it runs in float32, at the places; of a forward alone, a rounding of each."""
        if not self.has_backward:
            rng = np.random.default_rng(0)
            return {t: 2.0**-24 * n * rng.normal(size=n.shape) for t, n in self.gradients(upstream, at).items()}
        exact, low = self.gradients(upstream, at), self.subject.of(self.target, "float32").gradients(upstream, at)
        return {tensor: places.of(low[tensor]) - exact[tensor] for tensor, places in self.places.items()}

    def outputs_in_float32(self, at: Tensors) -> dict[str, HostArray]:
        """ "output i" -> what that output errs if the forward runs in float32."""
        low = self.subject.of(self.target, "float32").outputs(at)
        return {name: low[i] - y for i, (name, y) in enumerate(self.outputs(at).items())}

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
        there = at if rounding is None else rounding.arrays(at)
        return float(self._phased.run(rounding, lambda: slope_of(self.subject, upstream, there, tensor, direction)))

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
                    without = self.subject.of((self.target[0], mutant.build)).gradients(upstream, at)
                lost = {tensor: exact[tensor] - self.places[tensor].of(g) for tensor, g in without.items()}
            except Exception:  # the formula does not run without it
                continue
            if any(np.any(x != 0) for x in lost.values()) and all(np.all(np.isfinite(x)) for x in lost.values()):
                terms[_dropped(mutant.before, mutant.after)] = lost
        return terms


def moved(x: HostArray, rng: np.random.Generator, u: float) -> HostArray:
    """A point near x: by some 2 % at most, by less where numbers are large beside their spread, by 2u at least.

    Each entry is moved by itself, and all along each axis together, so that statistics of rows are rounded anew, too.
    Moves are relative: zeros stay, and no sign changes.
    """
    most = float(np.max(np.abs(x), initial=0.0))
    if not most:
        return x
    spread = float(np.std(x)) or most
    far = min(0.02, max(1e-3, 5 * u))  # 2 % in bfloat16, 1 % in float16, 0.1 % where there are many digits
    size = max(2 * u, min(far, 0.1 * spread / most, 0.15 / most if most > 1 else 1.0))
    along = [rng.uniform(-1, 1, size=[n if i == axis else 1 for i, n in enumerate(x.shape)]) for axis in range(x.ndim)]
    together = np.asarray(sum(along, start=np.asarray(rng.uniform(-1, 1)))) / (x.ndim + 1)
    return np.asarray(x * (1 + size * (rng.uniform(-1, 1, size=x.shape) + together)))


def _near(subject: Subject, seed: int) -> Subject:
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


def _axes(shape: Shape) -> tuple[tuple[int, ...], ...]:
    """Each axis of more than one entry, and all of them."""
    long = [i for i, n in enumerate(shape) if n > 1]
    single = [(i,) for i in long] if len(long) > 1 else []
    return (*single, tuple(range(len(shape)))) if long else ()


def _as_forward(reference: Any) -> Function:
    """A forward alone as the forward of a pair."""

    def forward(*inputs: Any, **options: Any) -> Any:
        result = reference(*inputs, **options)
        return result if isinstance(result, tuple) and len(result) == 2 else (result, None)

    return forward
