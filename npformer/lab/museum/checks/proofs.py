"""Invariants, requirements beyond the gradient, each as one check over the catalogue."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial

import numpy as np

from npformer.check.cases.case import KEY, Case, model
from npformer.check.cases.catalogue import catalogue
from npformer.check.invariants import INVARIANTS, Invariant
from npformer.check.invariants.probe import Probe
from npformer.lab.museum.checks.check import Check, Program, small_config
from npformer.models import Transformer


def proof_checks() -> Iterator[Check]:
    """A check for each invariant."""
    for name, one in INVARIANTS.items():
        yield Check(f"invariant: {name}", one.meaning, tuple(partial(_problems, one, case) for case in _cases()))


@cache
def _cases() -> tuple[Case, ...]:
    """Operations, layers except stacks, and two models of one layer each: small, since every check runs on all."""
    small = [case for case in catalogue() if case.group != "model" and "Stack" not in case.name]
    src, tgt = np.array([[3, 5, 4, 6], [6, 2, 0, 0]]), np.array([[1, 6, 4], [1, 5, 0]])
    for changes in ({"norm_order": "post"}, {"norm_order": "pre", "activation": "gelu", "tie_embeddings": True}):
        config = small_config(**({"d_model": 4, "d_ff": 6, "dropout": 0.3, "max_seq_len": 6} | changes))
        small.append(model(f"Transformer: {config.norm_order}", Transformer, config, src, tgt, key=KEY))
    return tuple(small)


def _problems(one: Invariant, case: Case, program: Program) -> list[str]:
    """Claims share a probe; each starts just after a forward, so that a bug with memory always sees the same one."""
    key, device = (__name__, case.name), program.backend.device
    target = program.shared(("target", key), lambda: case.build(program.backend))
    probe = program.shared(("probe", key), lambda: Probe(target, case.inputs, case.options, device))
    probe.outputs()
    claim = one.judged(probe)
    return [f"{case.name}: {claim.reason}"] if claim.fails else []
