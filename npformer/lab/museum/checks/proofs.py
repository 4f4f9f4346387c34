"""Invariants and identities of the proof package, each as one check over the catalogue.

Invariants are requirements beyond the gradient (no position sees the future, padding changes nothing);
identities are equations between the numbers of a right forward and backward, without a difference quotient.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial

import numpy as np

from npformer.check.cases.case import KEY, Case, model
from npformer.check.cases.catalogue import catalogue
from npformer.check.claims.identities import IDENTITIES, Identity
from npformer.check.claims.invariants import INVARIANTS, Invariant
from npformer.check.claims.invariants.probe import Probe
from npformer.lab.museum.checks.check import Check, Program, small_config
from npformer.models import Transformer


def proof_checks() -> Iterator[Check]:
    """A check for each invariant, then one for each identity."""
    claims = {f"invariant: {name}": one for name, one in INVARIANTS.items()}
    for name, one in (claims | {f"identity: {name}": one for name, one in IDENTITIES.items()}).items():
        yield Check(name, one.meaning, tuple(partial(_problems, one, case) for case in _cases()))


@cache
def _cases() -> tuple[Case, ...]:
    """Operations, layers except stacks, and two models of one layer each: small, since every check runs on all."""
    small = [case for case in catalogue() if case.group != "model" and "Stack" not in case.name]
    src, tgt = np.array([[3, 5, 4, 6], [6, 2, 0, 0]]), np.array([[1, 6, 4], [1, 5, 0]])
    for changes in ({"norm_order": "post"}, {"norm_order": "pre", "activation": "gelu", "tie_embeddings": True}):
        config = small_config(**({"d_model": 4, "d_ff": 6, "dropout": 0.3, "max_seq_len": 6} | changes))
        small.append(model(f"Transformer: {config.norm_order}", Transformer, config, src, tgt, key=KEY))
    return tuple(small)


def _problems(one: Invariant | Identity, case: Case, program: Program) -> list[str]:
    """Claims share a probe; each starts just after a forward, so that a bug with memory always sees the same one."""
    key, device = (__name__, case.name), program.backend.device
    target = program.shared(("target", key), lambda: case.build(program.backend))
    if isinstance(one, Identity) and not one.is_about(target):
        return []
    probe = program.shared(("probe", key), lambda: Probe(target, case.inputs, case.options, device))
    probe.outputs()
    row = one.judged(probe)
    return [f"{case.name}: {row.violation or row.reason}"] if row.fails else []
