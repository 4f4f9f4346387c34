"""Explains an operation line by line, and where one number of a gradient comes from, exactly.

``session`` records a target and keeps it ready to run; ``explanation`` asks it about one place; ``lines`` and
``to_dict`` show the answer. Where each part of the text comes from:

    the number, its witnesses and verdict    ``value``, which asks ``check``
    terms, why, up                           ``graph`` between operations, ``spots`` and ``expand`` within a line
    paths                                    ``paths``, through residual sums
    tokens, means                            ``explanation``, ``value``
    an operation, line by line               ``operation``, with the formulas that ``derivation`` reads

The page for a browser is that of a trace (``npformer.see.page.trace_writer``), whose terms are those of
``npformer.see.record.jacobian``.
"""

from npformer.see.explain.explanation import Explanation, explanation, to_dict
from npformer.see.explain.session import Session, Setting, session
from npformer.see.explain.text import lines

__all__ = [
    "Explanation",
    "Session",
    "Setting",
    "explanation",
    "lines",
    "session",
    "to_dict",
]
