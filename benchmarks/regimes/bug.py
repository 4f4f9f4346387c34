"""A bug that shows in a regime alone: a right pair, and one edit of its backward."""

import inspect
import textwrap
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import npformer as npf
from benchmarks.foreign.pair import written

Pair = tuple[Callable[..., Any], Callable[..., Any]]


@dataclass(frozen=True)
class Bug:
    """One bug: ``old``, which occurs exactly once in the right backward's source, becomes ``new``.

    where: the inputs or shapes at which it shows. report: the public report that it is made after, as
    owner/repository#number; "" for one of our own. The pair is written anew: facts are the report's, code is not.
    precision: of a kernel that has a reference; None for float64.
    """

    name: str
    forward: Callable[..., Any]
    backward: Callable[..., Any]
    inputs: tuple[Any, ...]
    old: str
    new: str
    where: str
    report: str = ""
    reference: Pair | None = None
    precision: str | None = None
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def wrong(self):
        """The wrong backward. Raises ValueError unless ``old`` occurs exactly once in the right one's source."""
        source = textwrap.dedent(inspect.getsource(self.backward))
        if source.count(self.old) != 1:
            raise ValueError(f"{self.name}: expected {self.old!r} once in its backward, got {source.count(self.old)}")
        return written(source.replace(self.old, self.new), self.backward)

    def judged(self, backward, **how):
        """gradcheck's report on the forward with this backward; how: more options of the check."""
        against = {} if self.reference is None else {"reference": self.reference, "precision": self.precision}
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # a wrong backward may divide by 0
            return npf.gradcheck((self.forward, backward), *self.inputs, **against, **self.options, **how)


def normal(seed, *shape):
    """Standard normal numbers, float64."""
    return np.random.default_rng([seed, 31]).normal(size=shape)


def within(seed, most, *shape):
    """Uniform numbers between −most and most."""
    return np.random.default_rng([seed, 32]).uniform(-most, most, size=shape)


def single(*arrays):
    """The arrays in float32."""
    return tuple(x.astype(np.float32) for x in arrays)
