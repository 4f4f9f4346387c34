"""Other points for a wrong backward: a change that is right by coincidence at the check's own is wrong at one of them.

Numbers move: inputs, parameters, and options that reach the backward. Entries change places, masks and counts change.
An ε grows, for what holds to its first order is right as long as its square is lost in rounding: √(v + 2ε√v) ≈ √v + ε.
Axes grow, those of equal length together, and by itself each one that forward lets grow by itself: 2·3 is no longer 6,
and no matrix is square.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np

from npformer.check.checkable import parameters_of
from npformer.check.inputs import as_tuple
from npformer.check.measures import nearby
from npformer.check.subject import Subject
from npformer.typing import HostArray

#: A point with this many times the elements of the check's is left out.
MOST_TIMES = 9
#: The shortest axis of a smaller point.
SHORT = 3
#: By how much numbers move, of their size; how many mask entries are turned.
MOVE, TURNED = 0.1, 0.3
#: A number below this is an ε, and grows to this root of it.
SMALL, ROOT = 1e-3, 0.25

#: (name, value) -> another value, for each input and option.
Change = Callable[[str, Any], Any]
#: (name of an array, axis) -> its length; axis None: an integer that may be a length.
Lengths = dict[tuple[str, int | None], int]


class Elsewhere:
    """The points near that of a subject. Each is a subject that runs there."""

    def __init__(self, checked: Subject, seed: int) -> None:
        self._checked = checked
        self._rng = np.random.default_rng([seed, 7])
        self._options = {**self._handed_on(), **self._checked.options}
        self._values = {**self._checked.inputs.values, **self._options}
        # The backward may know these by itself.
        self._fixed = self._values.keys() & (parameters_of(self._checked.target.backward) or {}).keys()
        free = {name: x for name, x in self._values.items() if name not in self._fixed}
        self._small = {name for name, x in free.items() if isinstance(x, float) and 0 < x < SMALL}
        arrays = [(name, x) for name, x in self._values.items() if isinstance(x, np.ndarray)]
        self._sizes: Lengths = {(name, axis): n for name, x in arrays for axis, n in enumerate(x.shape) if n > 1}
        self._counts: Lengths = {(name, None): x for name, x in free.items() if type(x) is int}

    def subjects(self) -> Iterator[Subject]:
        """Moved numbers, a larger ε, entries in other places with other masks, other counts, other shapes."""
        lengths = self._lengths
        together = [_longer(lengths), _longer(self._sizes), {key: 2 * n for key, n in self._sizes.items()}]
        kinds: list[Iterable[Change]] = [[self._number], [self._grown] if self._small else [], [self._shuffled]]
        kinds += [[self._sized({key: n + 1})] for key, n in islice(self._counts.items(), 3)]
        kinds += [map(self._sized, together), map(self._sized, self._by_themselves())]
        for attempts in kinds:
            yield from islice(filter(None, map(self._at, attempts)), 1)

    def smaller(self) -> Subject | None:
        """The subject with short axes, where equal lengths stay equal and others stay others; None if it has none."""
        order = sorted(set(self._sizes.values()))
        return self._at(self._sized({key: min(n, SHORT + order.index(n)) for key, n in self._lengths.items()}))

    @property
    def _lengths(self) -> Lengths:
        """Of axes, and of integers that are such lengths."""
        return self._sizes | {key: n for key, n in self._counts.items() if n in self._sizes.values()}

    def _at(self, change: Change) -> Subject | None:
        """The subject there; None if it is large, if forward or backward fails, or if they give no numbers."""
        try:
            inputs = self._checked.inputs.mapped(lambda leaf: change(leaf.name, self._values[leaf.name]))
            options = {name: change(name, value) for name, value in self._options.items()}
            subject = self._checked.elsewhere(inputs, options, self._moved)
            outputs = subject.outputs({})
            gradients = subject.gradients(tuple(np.ones(y.shape) for y in outputs))
        except Exception:
            return None
        is_fit = subject.elements < MOST_TIMES * self._checked.elements
        is_fit &= all(gradients[name].shape == x.shape for name, x in subject.tensors.items())
        return subject if is_fit and all(np.isfinite(x).all() for x in (*outputs, *gradients.values())) else None

    def _moved(self, x: HostArray) -> HostArray:
        return nearby(x, MOVE, self._rng)

    def _number(self, name: str, value: Any) -> Any:
        if isinstance(value, float) and name not in self._fixed:
            return value * (1 - MOVE)
        return self._moved(value) if _kind(value) == "f" else value

    def _grown(self, name: str, value: Any) -> Any:
        return value**ROOT if name in self._small else self._number(name, value)

    def _shuffled(self, name: str, value: Any) -> Any:
        if _kind(value) == "b":
            return value ^ (self._rng.random(value.shape) < TURNED)
        return self._rng.permutation(value.ravel()).reshape(value.shape) if _kind(value) == "f" else value

    def _sized(self, lengths: Lengths) -> Change:
        def change(name: str, value: Any) -> Any:
            for axis, old in enumerate(np.shape(value) if _kind(value) else ()):
                value = np.take(value, np.arange(lengths.get((name, axis), old)) % old, axis)
            return lengths.get((name, None), self._number(name, value))

        return change

    def _by_themselves(self) -> Iterator[Lengths]:
        """Axes that may grow without the others, all of them together and then the first; not if one needs another."""

        def grows(*keys: tuple[str, int | None]) -> bool:
            return self._at(self._sized({key: self._sizes[key] + 1 for key in keys})) is not None

        free = [key for key in self._sizes if grows(key)]
        bound = [(key, n) for key, n in self._sizes.items() if key not in free]
        free = [one for one in free if not any(n == self._sizes[one] and grows(one, key) for key, n in bound)]
        if free:
            yield {key: self._sizes[key] + by for by, key in enumerate(free, 1)}
            yield {free[0]: self._sizes[free[0]] + 1}

    def _handed_on(self) -> dict[str, float]:
        """Numbers that forward takes by default and hands to backward in its cache."""
        forward, options = self._checked.target.forward, self._checked.options
        rest = list((parameters_of(forward) or {}).values())[len(self._checked.input_names) :]
        floats = {p.name: p.default for p in rest if isinstance(p.default, float) and p.name not in options}
        moved = {name: value * (1 - MOVE) for name, value in floats.items()}
        try:
            _, cache = forward(*self._checked.inputs.placed({}), **options, **moved) if moved else ((), ())
        except Exception:
            return {}
        held = {id(part) for part in (cache.values() if isinstance(cache, dict) else as_tuple(cache))}
        return {name: value for name, value in floats.items() if id(moved[name]) in held}


def _kind(value: Any) -> str:
    """That of an array's numbers; "" for anything else."""
    return value.dtype.kind if isinstance(value, np.ndarray) else ""


def _longer(lengths: Lengths) -> Lengths:
    """Equal lengths stay equal; the differences between others change, too."""
    order = sorted(set(lengths.values()))
    return {key: n + 1 + order.index(n) for key, n in lengths.items()}
