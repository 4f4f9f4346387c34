"""Proof: gradients checked against witnesses that know nothing of how they were derived."""

from npformer.errors import GradientError
from npformer.proof.catalogue import Case, catalogue
from npformer.proof.check import gradcheck
from npformer.proof.report import Report, Row

__all__ = ["Case", "GradientError", "Report", "Row", "catalogue", "gradcheck"]
