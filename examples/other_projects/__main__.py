"""All of them, in reading order: ``python -m examples.other_projects``."""

from __future__ import annotations

from examples.other_projects import attention, dropout, formulas, linear, tokens
from examples.other_projects.common import show

for theme in (linear, formulas, attention, dropout, tokens):
    show(theme.MISTAKES)
