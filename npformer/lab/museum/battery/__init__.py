"""The battery: every check that npformer has, under a name, in the order in which they are told."""

from __future__ import annotations

from collections.abc import Sequence

from npformer.lab.museum.battery.check import Check
from npformer.lab.museum.battery.edges import edge_checks
from npformer.lab.museum.battery.forward import forward_checks
from npformer.lab.museum.battery.gradients import gradient_checks
from npformer.lab.museum.battery.optimiser import optimiser_checks
from npformer.lab.museum.battery.proofs import certificate_checks, theorem_checks
from npformer.lab.museum.battery.training import training_checks
from npformer.lab.museum.battery.wiring import wiring_checks

__all__ = ["Check", "battery"]


def battery() -> Sequence[Check]:
    """All checks, those that say most of one place first."""
    return (
        *forward_checks(), *edge_checks(), *gradient_checks(), *optimiser_checks(), *wiring_checks(),
        *training_checks(), *certificate_checks(), *theorem_checks(),
    )  # fmt: skip
