"""Every check of npformer, by name, in the order of the report."""

from __future__ import annotations

from collections.abc import Sequence

from npformer.lab.museum.checks import forward, optimiser, training, wiring
from npformer.lab.museum.checks.check import Check, Program
from npformer.lab.museum.checks.gradients import gradient_checks
from npformer.lab.museum.checks.proofs import proof_checks

__all__ = ["Check", "Program", "all_checks"]


def all_checks() -> Sequence[Check]:
    """Every check, the most specific ones first."""
    return (
        *forward.CHECKS, *gradient_checks(), *optimiser.CHECKS, *proof_checks(), *wiring.CHECKS,
        *training.CHECKS,
    )  # fmt: skip
