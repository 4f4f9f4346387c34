"""Certificates: what must be true of a layer or a model beside its gradient, each checked by name.

``certify(target, *inputs, **options)`` runs all of them on any pair, layer or model, your own included.
``CERTIFICATES`` holds each by its name, to be run alone: ``CERTIFICATES["causality"](layer, x, mask=mask)``.
"""

from __future__ import annotations

from typing import Any

from npformer.backend import Device
from npformer.proof.certificates.bookkeeping import (
    accumulation,
    determinism,
    linear_backward,
    no_mutation,
    reuse,
    shape_and_dtype,
    used_cache,
)
from npformer.proof.certificates.check import Check, name_of, opened, parameters_of
from npformer.proof.certificates.losses import ignored_tokens, tying
from npformer.proof.certificates.padding import padding_invariance
from npformer.proof.certificates.result import Certificate, Certificates, DoesNotApply, Violation
from npformer.proof.certificates.snapshot import restored
from npformer.proof.certificates.wiring import batch_order, causality, sequences_alone

__all__ = [
    "CERTIFICATES",
    "Certificate",
    "Certificates",
    "Check",
    "DoesNotApply",
    "Violation",
    "certify",
]

#: Every certificate by its name, what one cannot see in a gradient first.
CERTIFICATES: dict[str, Check] = {
    one.name: one
    for one in (
        causality,
        padding_invariance,
        batch_order,
        sequences_alone,
        ignored_tokens,
        tying,
        determinism,
        linear_backward,
        accumulation,
        reuse,
        used_cache,
        no_mutation,
        shape_and_dtype,
    )
}


def certify(
    target: Any, *inputs: Any, name: str | None = None, device: Device | None = None, seed: int = 0, **options: Any
) -> Certificates:
    """Run every certificate on target at these inputs. Returns Certificates; nothing of target is changed.

    target: a pair ``(forward, backward)``, or anything with ``forward(*inputs, **options) -> (y, cache)``,
    ``backward(dy, cache)`` and, if it has parameters, ``named_parameters()``, as for ``gradcheck``. A model
    takes (src, tgt_in) token ids; a layer's time axis is the last but one. A layer that is causal by
    itself says so with an attribute ``causal = True``.

    Everything is computed in float64. What forward raises on these inputs is raised; what happens
    after that is a finding.
    """
    with restored(target, *parameters_of(target)):
        trial = opened(target, inputs, options, device, seed)
        rows = tuple(one.judged(trial) for one in CERTIFICATES.values())
    return Certificates(name or name_of(target), rows)
