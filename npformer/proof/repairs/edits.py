"""Small changes of a function's syntax tree that would undo the mistakes people make in a backward pass.

Each replaces one node by another, and names the mistake that it undoes:

    sign             a → −a, a + b ↔ a − b, a − b → b − a        swapped outputs   return a, b → return b, a
    extra term       a + b → a                                   missing term      a → a + t, a − t
    extra factor     a·b → a, a/b → a                            missing factor    a → a·v, a/v, a @ v, v @ a
    wrong factor     v → w, a·b ↔ a/b, a/b → b/a                 wrong constant    c → 2c, c ± 1, a constant of forward
    transposed       a → aᵀ and back, a @ b → b @ a              reshaped          a → a with an axis turned round
    summed axis      another axis, sum ↔ mean, a sum more        wrong branch      a < b → a > b, where(c, a, b)
    wrong place      i → i ± 1, x[1:] → x[:-1]                   not accumulated   x[i] = v → x[i] += v, add.at

t, v and w are names and expressions of the function itself, chosen by their shapes during a run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from npformer.proof.repairs.additions import (
    choices,
    derived_factors,
    factors,
    functions,
    names,
    sums,
    terms,
    terms_of_two,
)
from npformer.proof.repairs.inverse import (
    accumulation,
    axes,
    branches,
    constants,
    drops,
    outputs,
    places,
    signs,
    transposes,
    turns,
)
from npformer.proof.repairs.nodes import Edit, Known, is_real, is_value, sites


def edits(function: ast.FunctionDef, known: Known) -> Iterator[Edit]:
    """All changes, the simplest explanations first."""
    everywhere = sites(function)
    for kind in (outputs, signs, drops, axes, transposes, branches, places, turns, constants, accumulation):
        for site in everywhere:
            for cause, node in kind(site, known):
                yield Edit(cause, site, node)
    for kind in (factors, terms, names, functions, terms_of_two, derived_factors, choices, sums):
        for site in everywhere:
            if is_value(site, known) and is_real(known.values[id(site.get())]):
                for cause, node in kind(site, known):
                    yield Edit(cause, site, node)
