"""Invariants: properties of a layer or a model beyond its gradient, each checked by name.

``certify(target, *inputs, **options)`` runs all of them on any pair, layer or model, your own included.
``INVARIANTS`` holds each by its name, to be run alone: ``INVARIANTS["causality"](layer, x, context=Context(mask))``.
"""

from __future__ import annotations

from typing import Any

from npformer.backend import Device
from npformer.check.invariants import tokens, wiring
from npformer.check.invariants.invariant import Invariant, claimed, opened
from npformer.check.properties import PROPERTIES
from npformer.check.remembered import remembered_bits
from npformer.check.report import Report
from npformer.check.subject import name_of

__all__ = ["INVARIANTS", "Invariant", "certify"]

#: Every invariant by its name; first those that a gradient cannot show.
INVARIANTS: dict[str, Invariant] = {
    one.name: one
    for one in (*vars(wiring).values(), *vars(tokens).values(), *map(claimed, PROPERTIES.values()))
    if isinstance(one, Invariant) and one.name != "layout"
}


def certify(
    target: Any, *inputs: Any, name: str | None = None, device: Device | None = None, seed: int = 0, **options: Any
) -> Report:
    """Run every invariant on target at these inputs. Returns a Report with a claim for each; target is not changed.

    target: a pair ``(forward, backward)``, or anything with ``forward(*inputs, **options) -> (y, cache)``,
    ``backward(dy, cache)`` and, if it has parameters, ``named_parameters()``, as for ``gradcheck``. A model
    takes (src, tgt_in) token ids; a layer's time axis is the last but one. A layer that is causal by
    itself says so with an attribute ``causal = True``.

    Everything is computed in float64. An error of forward on these inputs is raised; any later error
    is a finding.
    """
    with remembered_bits(), opened(target, inputs, options, device, seed) as probe:
        claims = tuple(one.judged(probe) for one in INVARIANTS.values())
    return Report(name or name_of(target), claims=claims)
