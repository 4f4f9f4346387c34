"""A foreign pair: a forward and a backward as other projects write them, and mistakes in the backward."""

import inspect
import itertools
import linecache
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]

#: The kinds of mistakes. A person would accept a diagnosis that names the kind as the true cause.
KINDS = {
    "sign": "a gradient, or a term of it, has the opposite sign",
    "factor": "a factor too many or too few: 2, 1/N, a size, one over a size",
    "missing term": "one term of a sum is missing",
    "extra term": "a term is added that should not be there, or is added in the wrong form",
    "missing factor": "an array is missing from a product: a weight, a mask, a derivative",
    "wrong factor": "another array is used instead, or the inverse",
    "transposed": "two axes, or two operands of a product, are exchanged",
    "reshaped": "elements are in the order of another axis, or shifted by a wrong amount",
    "summed axis": "a sum or mean is missing, runs over the wrong axis, or replaces the other",
    "zero": "it is zero where it should not be",
    "not accumulated": "only one of several contributions to the same element is kept",
    "swapped outputs": "gradients are returned in the wrong order",
    "wrong branch": "a condition, a mask or a choice is inverted or left out",
    "wrong place": "it is wrong in some places only: first, last, off by one, one head, masked",
    "wrong constant": "a constant of the formula has another value, or too few digits",
    "not finite": "it has NaN or infinite entries",
}


@dataclass(frozen=True)
class Edit:
    """A mistake made by hand: ``old``, which occurs exactly once in the backward's source, becomes ``new``."""

    what: str
    old: str
    new: str
    kinds: frozenset[str]

    def apply(self, backward):
        """The wrong backward. Raises ValueError unless ``old`` occurs exactly once in the source."""
        source = textwrap.dedent(inspect.getsource(backward))
        if source.count(self.old) != 1:
            raise ValueError(
                f"{backward.__name__}: expected {self.old!r} once in its source, got it {source.count(self.old)} times"
            )
        return written(source.replace(self.old, self.new), backward)


_numbers = itertools.count()


def written(source, original):
    """The function that source defines, in the original's namespace; inspect.getsource can read it, as from a file."""
    names, file = dict(original.__globals__), f"<wrong {next(_numbers)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    exec(compile(source, file, "exec"), names)
    return names[original.__name__]


def wrong(what, old, new, *kinds):
    """An Edit whose true cause belongs to these kinds, one to three."""
    if not 1 <= len(kinds) <= 3 or not set(kinds) <= set(KINDS):
        raise ValueError(f"{what}: expected one to three of {', '.join(KINDS)}, got {kinds}")
    return Edit(what, old, new, frozenset(kinds))


@dataclass(frozen=True)
class Foreign:
    """A right pair: forward(*inputs, **options) -> (y, cache), backward(dy, cache) -> gradients in the inputs' order.

    Integer and boolean inputs have no gradient. check: options of gradcheck, for example for a forward that reads
    only one triangle of a matrix.
    """

    name: str
    forward: Function
    backward: Function
    inputs: tuple[Any, ...]
    edits: tuple[Edit, ...]
    options: dict[str, Any]
    check: dict[str, Any]

    def cast(self, dtype):
        """The inputs, those that have a gradient in this dtype."""
        return tuple(x.astype(dtype) if is_float(x) else x for x in self.inputs)


def foreign(name, forward, backward, inputs, *edits, options=None, check=None):
    """A Foreign with these mistakes; a single input needs no tuple."""
    return Foreign(name, forward, backward, as_tuple(inputs), edits, options or {}, check or {})


@dataclass(frozen=True)
class Wrong:
    """A wrong version of a pair: its backward, and the kinds that name its true cause."""

    name: str
    pair: Foreign
    backward: Function
    by_hand: bool  # else a mutant of the syntax tree
    kinds: frozenset[str]


def by_hand(pairs):
    """Every mistake that was made by hand in these pairs."""
    return [
        Wrong(f"{pair.name}: {edit.what}", pair, edit.apply(pair.backward), True, edit.kinds)
        for pair in pairs
        for edit in pair.edits
    ]


def normal(seed, *shape):
    """Standard normal random numbers."""
    return np.random.default_rng(seed).normal(size=shape)


def normals(seed, *shapes):
    """An array of such numbers for each shape, with seeds from this one on."""
    return tuple(normal(seed + i, *shape) for i, shape in enumerate(shapes))


def positive(seed, *shape):
    """Random numbers between 0.5 and 2."""
    return np.random.default_rng(seed).uniform(0.5, 2.0, size=shape)


def apart(seed, *shape, gap=0.3):
    """Random numbers in random order, any two at least ``gap`` apart and none nearer to 0 than half of it: no ties."""
    rng = np.random.default_rng(seed)
    count = int(np.prod(shape))
    steps = np.cumsum(gap + 0.1 * rng.random(count))
    below = count // 2
    return rng.permutation(steps - (steps[below] + steps[below - 1]) / 2).reshape(shape)


def softmax(x):
    """Over the last axis, for forwards that need one."""
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def gradients(pair, backward, dtype="float64"):
    """The gradients that a backward returns at the pair's inputs, for one random upstream gradient."""
    y, cache = pair.forward(*pair.cast(dtype), **pair.options)
    return as_tuple(backward(upstream(y), cache))


def upstream(y):
    """A random gradient of each output, in its shape and dtype."""
    rng = np.random.default_rng(5)
    dys = tuple(np.asarray(rng.normal(size=np.shape(part)), dtype=part.dtype) for part in as_tuple(y))
    return dys if isinstance(y, tuple) else dys[0]


def as_tuple(x):
    """Several values as they are, a single one as a tuple."""
    return x if isinstance(x, tuple) else (x,)


def is_float(x):
    """Whether an input has a gradient."""
    return isinstance(x, np.ndarray) and x.dtype.kind == "f"
