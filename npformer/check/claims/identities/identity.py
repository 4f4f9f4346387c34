"""An identity: an equation between numbers of one forward and backward that a right gradient satisfies.

There are no differences: both sides are computed from the results of forward and backward, so they
agree to rounding, and bit for bit where a claim is exact. A wrong gradient may satisfy it, too, if its error has the
same symmetry (``universal.py``).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from npformer.backend import Device
from npformer.check.claims.invariants.invariant import judgement, opened
from npformer.check.claims.invariants.probe import Probe
from npformer.check.claims.invariants.result import ClaimResult, DoesNotApply, Violation, close, same_bits
from npformer.check.subject import name_of
from npformer.layers.layer import things_in
from npformer.typing import HostArray

TOLERANCE = 1e-10  # of the terms' size: sums of thousands of float64 terms stay far below


class Claim(NamedTuple):
    """Two arrays that must be equal; scale is the size of the terms summed in them."""

    where: str
    expected: Any
    got: Any
    scale: float = 0.0
    exact: bool = False  # to the bit, whatever the scale

    def violation(self) -> Violation | None:
        """The worst element, if the two sides differ."""
        expected, got = (np.asarray(side) for side in (self.expected, self.got))
        if expected.shape != got.shape:
            return Violation(self.where, note=f"expected shape {expected.shape}, got {got.shape}")
        if self.exact:
            return same_bits({self.where: expected}, {self.where: got})
        return close(self.where, expected, got, self.scale, TOLERANCE)


Claims = Iterator[Claim]
Judge = Callable[[Probe], Claims]


@dataclass(frozen=True)
class Identity:
    """One identity. Call it like ``gradcheck``; its judge's docstring is the derivation."""

    name: str
    meaning: str  # in one line
    applies_to: frozenset[str]  # names of operations, and of classes of layers and models; empty: all
    inside: bool  # whether it also applies to a layer or model with such a part
    judge: Judge

    @property
    def derivation(self) -> str:
        """Why it is true."""
        return inspect.cleandoc(self.judge.__doc__ or "")

    def is_about(self, target: Any, kind: str | None = None) -> bool:
        """Whether this identity applies to target (of this kind, if given)."""
        kinds = {kind} if kind else kinds_of(target)
        if self.inside and not isinstance(target, tuple):
            kinds = kinds.union(*(kinds_of(part) for _, part in parts(target)))
        return not self.applies_to or bool(self.applies_to & kinds)

    def __call__(
        self,
        target: Any,
        *inputs: Any,
        kind: str | None = None,
        device: Device | None = None,
        seed: int = 0,
        **options: Any,
    ) -> ClaimResult:
        """The identity on a target at these inputs. kind names a pair's operation, if its forward does not."""
        with opened(target, inputs, options, device, seed) as probe:
            return self.judged(probe, kind)

    def judged(self, probe: Probe, kind: str | None = None) -> ClaimResult:
        """The result on a probe."""
        return judgement(self.name, self.meaning, lambda: self._violation(probe, kind))

    def _violation(self, probe: Probe, kind: str | None) -> Violation | None:
        if not self.is_about(probe.target, kind):
            raise DoesNotApply(f"it is about {', '.join(sorted(self.applies_to))}")
        says_something = False
        for claim in self.judge(probe):
            violation = claim.violation()
            if violation is not None:
                return violation
            says_something = says_something or claim.scale > 0 or claim.exact
        if not says_something:
            raise DoesNotApply("every term is 0 here: it would prove nothing")
        return None


def identity(name: str, meaning: str, *applies_to: str, inside: bool = False) -> Callable[[Judge], Identity]:
    """Make an Identity from a judge: a function of a Probe that yields Claims or raises DoesNotApply."""
    return lambda judge: Identity(name, meaning, frozenset(applies_to), inside, judge)


def kinds_of(target: Any) -> set[str]:
    """The kinds of a target: the operation's name for a pair, the class and its bases for a layer."""
    return {name_of(target)} if isinstance(target, tuple) else {kind.__name__ for kind in type(target).__mro__}


def parts(target: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(the prefix of its parameters' names, layer) for a layer and every layer inside it, each object once."""
    seen = set()
    waiting = [(prefix, target)]
    while waiting:
        start, layer = waiting.pop(0)
        if id(layer) in seen or not (hasattr(layer, "forward") and hasattr(layer, "backward")):
            continue
        seen.add(id(layer))
        yield start, layer
        for name, value in vars(layer).items():
            waiting.extend((f"{start}{dotted}.", item) for dotted, item in things_in(name, value))


def size(*arrays: HostArray) -> float:
    """The product of the largest entries."""
    return float(np.prod([np.max(np.abs(x), initial=0.0) for x in arrays]))


def sum_of(where: str, terms: HostArray, got: HostArray, axis: int | None = None) -> Claim:
    """got is the sum of the terms over an axis, or over the tokens: all axes but the last."""
    axes = tuple(range(terms.ndim - 1)) if axis is None else axis
    return Claim(where, np.sum(terms, axis=axes), got, size(np.sum(np.abs(terms), axis=axes)))


def sum_is_0(where: str, terms: HostArray, axis: int | None = None) -> Claim:
    """The sum of the terms over an axis, or over the tokens, is 0."""
    claim = sum_of(where, terms, np.zeros(()), axis)
    return claim._replace(expected=np.zeros_like(claim.expected), got=claim.expected)
