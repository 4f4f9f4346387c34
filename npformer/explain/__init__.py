"""Explains an operation line by line, and where one number of a gradient comes from, exactly.

``session`` records a target and keeps it ready to run; ``explanation`` asks it about one place; ``lines`` and
``to_dict`` show the answer. The parts: ``spots`` and ``expand`` read a line of a pair, ``graph`` follows numbers
between operations, ``paths`` through residual sums.
"""

from npformer.explain.checking import Checked, random_checks
from npformer.explain.explanation import Explanation, explanation, to_dict
from npformer.explain.session import Session, Setting, session
from npformer.explain.text import lines

__all__ = [
    "Checked",
    "Explanation",
    "Session",
    "Setting",
    "explanation",
    "lines",
    "random_checks",
    "session",
    "to_dict",
]
