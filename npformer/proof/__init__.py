"""Proof: gradients checked against witnesses that know nothing of how they were derived."""

from npformer.errors import GradientError
from npformer.proof.bisect import Bisection, bisect
from npformer.proof.budget import against_float64
from npformer.proof.catalogue import Case, catalogue
from npformer.proof.certificates import CERTIFICATES, Certificate, Certificates, certify
from npformer.proof.check import gradcheck
from npformer.proof.report import Report, Row
from npformer.proof.theorems import THEOREMS, prove

__all__ = [
    "CERTIFICATES",
    "THEOREMS",
    "Bisection",
    "Case",
    "Certificate",
    "Certificates",
    "GradientError",
    "Report",
    "Row",
    "against_float64",
    "bisect",
    "catalogue",
    "certify",
    "gradcheck",
    "prove",
]
