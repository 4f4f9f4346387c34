"""Every check of npformer, by name, in the order of the report."""

from __future__ import annotations

from collections.abc import Sequence

from npformer.lab.museum.checks.check import Check
from npformer.lab.museum.checks.edges import edge_checks
from npformer.lab.museum.checks.forward import forward_checks
from npformer.lab.museum.checks.gradients import gradient_checks
from npformer.lab.museum.checks.optimiser import optimiser_checks
from npformer.lab.museum.checks.program import Program
from npformer.lab.museum.checks.proofs import identity_checks, invariant_checks
from npformer.lab.museum.checks.training import training_checks
from npformer.lab.museum.checks.wiring import wiring_checks

__all__ = ["Check", "Program", "all_checks"]


def all_checks() -> Sequence[Check]:
    """Every check, the most specific ones first."""
    return (
        *forward_checks(), *edge_checks(), *gradient_checks(), *optimiser_checks(), *wiring_checks(),
        *training_checks(), *invariant_checks(), *identity_checks(),
    )  # fmt: skip
