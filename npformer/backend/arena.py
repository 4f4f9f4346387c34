"""The arena: all parameters of a model in one contiguous array, all gradients in another.

Each parameter is a view into both. So zeroing the gradients is one fill, the global norm one
pass, and an Adam step one pass. A table of segments records which elements belong to which
parameter. Each segment starts on a 64-byte boundary; the gaps between them are zeros and stay zero.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from npformer.backend.backend import Backend
from npformer.backend.workspace import ALIGNMENT
from npformer.errors import ConfigError
from npformer.functional.arrays import namespace
from npformer.typing import Array


class Storable(Protocol):
    """The part of a parameter that the arena needs: two arrays that it may move."""

    data: Array
    grad: Array


#: (name, parameter, further names of a tied one) of each parameter.
Named: TypeAlias = Iterable[tuple[str, Storable, tuple[str, ...]]]


@dataclass(frozen=True)
class Segment:
    """One parameter's elements: start … stop − 1 of the flat arrays."""

    name: str
    start: int
    stop: int
    shape: tuple[int, ...]
    aliases: tuple[str, ...] = ()  # further names of a tied parameter
    lr_scale: float = 1.0  # multiplies the learning rate
    weight_decay: float = 1.0  # multiplies the optimiser's weight decay
    trainable: bool = True  # False: neither updated nor part of the gradient's norm


def expect_unique(names: Iterable[str]) -> None:
    """Raise ConfigError if a name occurs twice: only one of two arrays saved under one name would remain."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ConfigError(f"{', '.join(twice)}: expected a name for each parameter, got one for several; rename them")


class SegmentRun(NamedTuple):
    """Adjacent trainable segments with equal settings: one slice, one update."""

    where: slice
    lr_scale: float
    weight_decay: float


class Arena:
    """The values (n,) and gradients (n,) of all parameters. The parameters become views into them.

    parameters are triples (name, parameter, aliases), each parameter once. Vectors (biases, gains)
    get weight_decay 0, as is usual; change the table with ``configure``.
    """

    def __init__(self, parameters: Named, backend: Backend) -> None:
        parameters = list(parameters)
        expect_unique([name for name, _, _ in parameters])
        self._step = step = ALIGNMENT // np.dtype(backend.dtype).itemsize
        segments, start = [], 0
        for name, parameter, aliases in parameters:
            stop = start + math.prod(parameter.data.shape)
            decay = 1.0 if parameter.data.ndim > 1 else 0.0
            segments.append(Segment(name, start, stop, parameter.data.shape, aliases, weight_decay=decay))
            start = -(-stop // step) * step
        self.backend = backend
        self.segments: tuple[Segment, ...] = tuple(segments)
        self._parameters = [parameter for _, parameter, _ in parameters]
        self._new_arrays(start)
        for parameter, view, grad in zip(self._parameters, self._views, self._grad_views, strict=True):
            view[...] = parameter.data
            parameter.data, parameter.grad = view, grad

    def __repr__(self) -> str:
        return f"<Arena: {len(self.segments)} parameters, {self.size:,} numbers of {self.backend.dtype}>"

    def _new_arrays(self, size: int) -> None:
        """Allocate zeros, and give each segment its elements."""
        self.values: Array = self.backend.zeros((size,))
        self.grads: Array = self.backend.zeros((size,))
        self._views = [self.view(self.values, segment) for segment in self.segments]
        self._grad_views = [self.view(self.grads, segment) for segment in self.segments]

    def expect_all(self, parameters: Named) -> None:
        """Raise ConfigError unless each parameter's data and grad are views into this arena, or it is frozen.

        An optimiser would never train any other parameter.
        """
        in_arena = {(id(view), id(grad)) for view, grad in zip(self._views, self._grad_views, strict=True)}
        frozen = {segment.name for segment in self.segments if not segment.trainable}
        strangers = [
            name for name, one, _ in parameters if (id(one.data), id(one.grad)) not in in_arena and name not in frozen
        ]
        if strangers:
            raise ConfigError(
                f"{', '.join(strangers[:5])}{', ...' * (len(strangers) > 5)}: expected data and grad in model.arena, "
                "got arrays of their own, which no optimiser would train; write into them (weight.data[...] = array), "
                "or pack the model anew: model.arena = Arena(model.owned_parameters(), model.backend), and then make "
                "the optimiser and the training step; or, if it was there before, freeze it: "
                "model.arena.configure(name, trainable=False)"
            )

    def __deepcopy__(self, memo: dict[int, Any]) -> Arena:
        """An arena with its own arrays. The copied parameters become views into them, so a deep copy can be trained.

        A parameter is recognised by its data and grad. A parameter with other arrays by now is only copied.
        """
        memo[id(self)] = other = copy(self)
        other._parameters = [deepcopy(parameter, memo) for parameter in self._parameters]
        other._new_arrays(self.size)
        other.values[...], other.grads[...] = self.values, self.grads
        for i, (parameter, mine) in enumerate(zip(self._parameters, self._views, strict=True)):
            if parameter.data is mine and parameter.grad is self._grad_views[i]:
                other._parameters[i].data, other._parameters[i].grad = other._views[i], other._grad_views[i]
        return other

    @property
    def size(self) -> int:
        """Elements of each flat array, gaps included."""
        return int(self.values.shape[0])

    def view(self, flat: Array, segment: Segment) -> Array:
        """The segment's part of a flat array (n,), in the segment's shape; a view."""
        return namespace(flat).reshape(flat[segment.start : segment.stop], segment.shape)

    def zero_grad(self) -> None:
        """Fill the gradients with 0."""
        self.grads[...] = 0

    def replica(self, parameters: Named) -> Arena:
        """An arena that shares the values but has its own gradients. The given parameters become views into it.

        A parameter is recognised by its data, not by its index, since layers may have been reordered.
        """
        other = copy(self)
        other.grads = self.backend.zeros((self.size,))
        segments = {id(view): segment for view, segment in zip(self._views, self.segments, strict=True)}
        for _, parameter, _ in parameters:
            segment = segments.get(id(parameter.data))
            if segment is not None:
                parameter.grad = self.view(other.grads, segment)
            else:  # not in this arena, so it is not trained
                parameter.grad = namespace(parameter.grad).zeros_like(parameter.grad)
        return other

    def add_gradients(self, other: Arena) -> None:
        """Add another arena's gradients to this one's."""
        self.grads += other.grads

    def configure(
        self, prefix: str, *, lr_scale: float | None = None, weight_decay: float | None = None,
        trainable: bool | None = None,
    ) -> None:  # fmt: skip
        """Change the settings of every segment whose name (or alias) is prefix or starts with it and a dot.

        Raises ConfigError if there is none, and for numbers below 0 or not finite.
        """
        settings = {"lr_scale": lr_scale, "weight_decay": weight_decay, "trainable": trainable}
        changes: dict[str, Any] = {key: value for key, value in settings.items() if value is not None}
        for key, value in changes.items():
            if not 0 <= value < math.inf:
                raise ConfigError(f"{key}: expected a finite number >= 0, got {value}")

        def is_meant(segment: Segment) -> bool:
            names = (segment.name, *segment.aliases)
            return any(name == prefix or name.startswith(prefix + ".") for name in names)

        if not any(map(is_meant, self.segments)):
            nearest = get_close_matches(prefix, [segment.name for segment in self.segments], n=1, cutoff=0.0)
            raise ConfigError(
                f"{prefix!r}: expected the name of a segment, or its beginning up to a dot; the nearest is {nearest} "
                "(W_q, W_k and W_v share one segment, qkv.weight)"
            )
        self.segments = tuple(replace(s, **changes) if is_meant(s) else s for s in self.segments)

    @property
    def settings(self) -> list[tuple[float, float, bool]]:
        """(lr_scale, weight_decay, trainable) of each segment; may be set."""
        return [(s.lr_scale, s.weight_decay, s.trainable) for s in self.segments]

    @settings.setter
    def settings(self, settings: Iterable[Sequence[Any]]) -> None:
        self.segments = tuple(
            replace(segment, lr_scale=scale, weight_decay=decay, trainable=trainable)
            for segment, (scale, decay, trainable) in zip(self.segments, settings, strict=True)
        )

    def runs(self, *, decaying: bool = True) -> list[SegmentRun]:
        """The trainable segments, adjacent ones with equal settings joined; not decaying: weight_decay 0 for all."""
        runs: list[SegmentRun] = []
        for segment in (s for s in self.segments if s.trainable):
            start, settings = segment.start, (segment.lr_scale, segment.weight_decay if decaying else 0.0)
            if runs and settings == runs[-1][1:] and start - runs[-1].where.stop < self._step:  # only a gap between
                start = runs.pop().where.start
            runs.append(SegmentRun(slice(start, segment.stop), *settings))
        return runs
