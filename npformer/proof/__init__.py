"""Proof: gradient checks against numerical witnesses that are independent of the derivation."""

from npformer.errors import GradientError
from npformer.proof.bisect import Bisection, bisect
from npformer.proof.budget import against_float64
from npformer.proof.case import Case
from npformer.proof.catalogue import catalogue
from npformer.proof.check import gradcheck
from npformer.proof.identities import IDENTITIES, prove
from npformer.proof.invariants import INVARIANTS, ClaimResult, ClaimResults, certify
from npformer.proof.report import Report, Row
from npformer.proof.stateful import from_object
from npformer.proof.trace import Trace, trace

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
