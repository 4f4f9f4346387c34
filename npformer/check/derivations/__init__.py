"""Derivations on paper, checked line by line.

``grammar`` reads one, ``point`` measures, ``derivation_check`` compares and says what a wrong line lacks, ``templates``
holds forwards to begin with.
"""

from npformer.check.derivations.derivation_check import JudgedDerivation, judge
from npformer.check.derivations.grammar import GRAMMAR, Derivation, read
from npformer.check.derivations.templates import TEMPLATES, template

__all__ = ["GRAMMAR", "TEMPLATES", "Derivation", "JudgedDerivation", "judge", "read", "template"]
