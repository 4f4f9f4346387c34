"""Theorems: identities that a right gradient obeys and a wrong one does not, without a finite difference.

``prove(target, *inputs, **options)`` runs all that speak of target: a pair, a layer or a model.
``THEOREMS`` holds each by its name; ``THEOREMS[name].derivation`` says why it is true.
"""

from __future__ import annotations

from typing import Any

from npformer.backend import Device
from npformer.proof.certificates.check import name_of, opened, parameters_of
from npformer.proof.certificates.result import Certificates
from npformer.proof.certificates.snapshot import restored
from npformer.proof.theorems import attention, heads, maps, network, norms, universal, weights
from npformer.proof.theorems.theorem import Claim, Theorem, theorem

__all__ = ["THEOREMS", "Claim", "Theorem", "prove", "theorem"]

#: Every theorem by its name, from single operations to whole networks.
THEOREMS: dict[str, Theorem] = {
    found.name: found
    for module in (maps, norms, weights, attention, heads, network, universal)
    for found in vars(module).values()
    if isinstance(found, Theorem)
}


def prove(
    target: Any,
    *inputs: Any,
    name: str | None = None,
    kind: str | None = None,
    device: Device | None = None,
    seed: int = 0,
    **options: Any,
) -> Certificates:
    """Run every theorem that speaks of target, at these inputs. Returns Certificates; nothing of target is changed.

    target, inputs and options are those of ``gradcheck``. What target is, is read off its class and the
    classes of its parts, for a pair off the name of its forward (``softmax_forward``) or given by kind. The
    path integral speaks of anything. Everything is computed in float64.
    """
    with restored(target, *parameters_of(target)):
        trial = opened(target, inputs, options, device, seed)
        rows = tuple(one.judged(trial, kind) for one in THEOREMS.values() if one.is_about(target, kind))
    return Certificates(name or kind or name_of(target), rows)
