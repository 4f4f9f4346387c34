"""Certificates and theorems of the proof package, each a check of its own over the catalogue.

Certificates ask what must be true beside the gradient (nobody sees the future, padding changes nothing);
theorems are identities that a right gradient obeys and a wrong one does not, without a difference quotient.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from typing import Any, Protocol

import numpy as np

from npformer.backend import Backend
from npformer.lab.museum.battery.check import Check
from npformer.models import Transformer, TransformerConfig
from npformer.proof.catalogue import KEY, Case, catalogue, shaken
from npformer.proof.certificates import CERTIFICATES, Certificate
from npformer.proof.theorems import THEOREMS, Theorem


class _Proof(Protocol):
    def __call__(self, target: Any, *inputs: Any, **options: Any) -> Certificate: ...


def certificate_checks() -> Iterator[Check]:
    """A check for each certificate."""
    for name, one in CERTIFICATES.items():
        yield Check(f"certificate: {name}", one.meaning, partial(_problems, one))


def theorem_checks() -> Iterator[Check]:
    """A check for each theorem."""
    for name, one in THEOREMS.items():
        yield Check(f"theorem: {name}", one.meaning, partial(_problems, one))


@cache
def _cases() -> tuple[Case, ...]:
    """Operations, layers but for the stacks, and two models of one layer each: small, since all are run on all."""
    small = [case for case in catalogue() if case.group != "model" and "Stack" not in case.name]
    src, tgt = np.array([[3, 5, 4, 6], [6, 2, 0, 0]]), np.array([[1, 6, 4], [1, 5, 0]])
    sizes = {"d_model": 4, "num_heads": 2, "d_ff": 6, "num_encoder_layers": 1, "num_decoder_layers": 1}
    for changes in ({"norm_order": "post"}, {"norm_order": "pre", "activation": "gelu", "tie_embeddings": True}):
        config = TransformerConfig(7, 7, **(sizes | {"dropout": 0.3, "max_seq_len": 6} | changes))
        build = partial(_model, config)
        small.append(
            Case("model", f"Transformer: {config.norm_order}", build, (src, tgt), {"key": KEY}, along_directions=True)
        )
    return tuple(small)


def _model(config: TransformerConfig, backend: Backend) -> Any:
    return shaken(Transformer(config, backend=backend))


def _problems(one: _Proof, backend: Backend) -> list[str]:
    for case in _cases():
        target = case.build(backend)
        if isinstance(one, Theorem) and not one.is_about(target):
            continue
        found = one(target, *case.inputs, device=backend.device, **case.options)
        if found.fails:
            return [f"{case.name}: {found.violation or found.reason}"]
    return []
