"""The formula of each operation, typeset above its page: what the forward computes, and what the backward.

It is that of the docstring of the operation's file, translated (``tex.py``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from typing import NamedTuple

from docs.site.tex import tex
from npformer.functional import OPERATIONS, Operation
from npformer.functional.derivation import for_page, parts_of


class Formula(NamedTuple):
    """TeX, one line for each string."""

    forward: tuple[str, ...]
    backward: tuple[str, ...]


def formula_of(row: Operation) -> Formula:
    """The formula of an operation. Raises ValueError if its docstring has one that cannot be translated."""
    shown = for_page(import_module(row.forward.__module__).__doc__ or "", row)
    return Formula(*(tuple(_lines("\n".join(shown[side]))) for side in Formula._fields))


def _lines(text: str) -> Iterator[str]:
    """Each line of formulas. What stands beside them in words is left out, but for the name of a case before them."""
    for line in text.splitlines():
        first, *others = parts_of(line)
        formulas = [tex(part) for part in (first, *others) if " = " in part and ";" not in part]
        if formulas:
            case = rf"\text{{{first}:}}\quad " if re.fullmatch("[a-z ]+", first) else ""
            yield case + r", \qquad ".join(formulas)


FORMULAS: dict[str, Formula] = {name: formula_of(row) for name, row in OPERATIONS.items()}
