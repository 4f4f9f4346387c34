"""Explains an operation line by line, and where one number of a gradient comes from, exactly.

``session`` records a target and keeps it ready to run; ``explanation`` asks it about one number; ``lines`` and
``to_dict`` show the answer. Where each part of the text comes from:

    the number, its witnesses and verdict    ``number``, which asks ``check``
    terms, why, up                           ``graph`` between operations, ``products`` of ``entries`` within a line
    paths                                    ``paths``, through residual sums
    tokens, means                            ``explanation``, ``number``
    an operation, line by line               ``operation``, with the formulas that ``derivation`` reads

The page for a browser is that of a trace (``npformer.see.page.trace_writer``), and tells the same products.
"""

from npformer.see.explain.explanation import Explanation, explanation, lines, to_dict
from npformer.see.record.recording import Setting, session

__all__ = [
    "Explanation",
    "Setting",
    "explanation",
    "lines",
    "session",
    "to_dict",
]
