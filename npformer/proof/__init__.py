"""Proof: gradient checks against numerical witnesses that are independent of the derivation.

Claims about a whole model are imported when they are first asked for: a gradient check needs none of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from npformer.errors import GradientError
from npformer.proof.bisect import Bisection, bisect
from npformer.proof.case import Case
from npformer.proof.catalogue import catalogue
from npformer.proof.check import gradcheck
from npformer.proof.report import Report, Row
from npformer.proof.stateful import from_object
from npformer.proof.trace import Trace, trace

if TYPE_CHECKING:
    from npformer.proof.budget import against_float64
    from npformer.proof.identities import IDENTITIES, prove
    from npformer.proof.invariants import INVARIANTS, ClaimResult, ClaimResults, certify
else:
    _HOMES = {
        "budget": ("against_float64",),
        "identities": ("IDENTITIES", "prove"),
        "invariants": ("INVARIANTS", "ClaimResult", "ClaimResults", "certify"),
    }

    def __getattr__(name):
        """Import a claim's name on first use, and keep it."""
        home = next((home for home, names in _HOMES.items() if name in names), None)
        if home is None:
            raise AttributeError(f"module 'npformer.proof' has no attribute {name!r}")
        globals()[name] = found = getattr(import_module(f"npformer.proof.{home}"), name)
        return found


__all__ = [
    "IDENTITIES",
    "INVARIANTS",
    "Bisection",
    "Case",
    "ClaimResult",
    "ClaimResults",
    "GradientError",
    "Report",
    "Row",
    "Trace",
    "against_float64",
    "bisect",
    "catalogue",
    "certify",
    "from_object",
    "gradcheck",
    "prove",
    "trace",
]
