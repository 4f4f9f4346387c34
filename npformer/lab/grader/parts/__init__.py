"""The exercises' reference pairs: npformer's operations again, in plain NumPy, as a learner would write them.

A template is the source of a pair without the body of its backward; ``parts`` in a learner's file
stands for the exercises before it. The learner gets no annotations and needs no other library.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from npformer.lab.grader.parts import composite, operations

#: Every function by its name, those that others call before them.
FUNCTIONS: dict[str, Callable[..., Any]] = vars(operations) | vars(composite)
