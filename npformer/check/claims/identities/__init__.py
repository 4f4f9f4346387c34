"""Identities: equations that a right gradient satisfies, checked without finite differences.

``prove(target, *inputs, **options)`` runs all that apply to target: a pair, a layer or a model.
``IDENTITIES`` holds each by its name; ``IDENTITIES[name].derivation`` is its proof.
"""

from __future__ import annotations

from typing import Any

from npformer.backend import Device
from npformer.check.claims.identities import attention, heads, maps, network, universal
from npformer.check.claims.identities.identity import Claim, Identity, identity
from npformer.check.claims.invariants.invariant import opened
from npformer.check.claims.invariants.result import ClaimResults
from npformer.check.remembered import remembered_bits
from npformer.check.subject import name_of

__all__ = ["IDENTITIES", "Claim", "Identity", "identity", "prove"]

#: Every identity by its name, from single operations to whole networks.
IDENTITIES: dict[str, Identity] = {
    thing.name: thing
    for module in (maps, attention, heads, network, universal)
    for thing in vars(module).values()
    if isinstance(thing, Identity)
}


def prove(
    target: Any,
    *inputs: Any,
    name: str | None = None,
    kind: str | None = None,
    device: Device | None = None,
    seed: int = 0,
    **options: Any,
) -> ClaimResults:
    """Run every identity that applies to target, at these inputs. Returns ClaimResults; target is not changed.

    target, inputs and options are those of ``gradcheck``. The kind of target follows from its class and the
    classes of its parts, for a pair from the name of its forward (``softmax_forward``) or from kind. The
    path integral applies to anything. Everything is computed in float64.
    """
    with remembered_bits(), opened(target, inputs, options, device, seed) as probe:
        rows = tuple(one.judged(probe, kind) for one in IDENTITIES.values() if one.is_about(target, kind))
    return ClaimResults(name or kind or name_of(target), rows)
