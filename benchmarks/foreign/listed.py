"""The complete list: all right pairs, and the wrong backwards of each.

The mutants among them were chosen once, and are stored in mutants.json as the changes that they make.
"""

import ast
import json
from functools import cache
from pathlib import Path

from benchmarks.foreign import (
    pairs_activations,
    pairs_attention,
    pairs_losses,
    pairs_matrices,
    pairs_norms,
    pairs_order,
    pairs_products,
    pairs_recurrent,
    pairs_shapes,
    pairs_spatial,
)
from benchmarks.foreign.pair import Wrong, by_hand, written
from npformer.check.diagnosis.mutants import mutants

CHOSEN = Path(__file__).with_name("mutants.json")

#: The kinds that a person would name for each mutation operator.
OF_OPERATOR = {
    "drop a term": {"missing term", "wrong factor"},  # 1 − s → 1 is a wrong factor
    "change a sign": {"sign", "extra term"},  # a + b → a − b: another term is added
    "drop a factor": {"missing factor", "factor", "wrong factor"},
    "scale by 2": {"factor", "wrong constant"},
    "drop a transpose": {"transposed"},
    "shift an axis": {"summed axis", "reshaped", "wrong place"},
    "sum to mean": {"summed axis", "factor"},
    "flip a choice": {"wrong branch", "wrong factor"},
    "drop the choice": {"wrong branch", "missing factor"},
    "swap outputs": {"swapped outputs"},
    "return zero": {"zero"},
}


def kinds_of(operator, before):
    """The kinds of a mutant; the effect of swapped operands depends on the operator between them."""
    if operator != "swap operands":
        return frozenset(OF_OPERATOR[operator])
    expression = ast.parse(before, mode="eval").body
    if isinstance(expression, ast.BinOp):
        return frozenset({"sign"} if isinstance(expression.op, ast.Sub) else {"wrong factor", "wrong constant"})
    return frozenset({"transposed"})


def mutant_of(pair, operator, before, after):
    """The first such mutant of the pair's backward. Raises ValueError if there is none."""
    for mutant in _mutants(pair.backward):
        if (mutant.operator, mutant.before, mutant.after) == (operator, before, after):
            return mutant
    raise ValueError(f"{pair.name}: expected the mutant {operator!r}, {before!r} → {after!r}, got none such")


_mutants = cache(mutants)


def chosen(pairs):
    """The mutants of mutants.json, in its order: pair, operator, before, after, and kinds if not the operator's."""
    by_name = {pair.name: pair for pair in pairs}
    for name, operator, before, after, *kinds in json.loads(CHOSEN.read_text(encoding="utf-8")):
        pair = by_name[name]
        mutant = mutant_of(pair, operator, before, after)
        label = f"{name}: {operator}, {before} → {after}"
        yield Wrong(
            label, pair, written(mutant.source, pair.backward), False, frozenset(kinds) or kinds_of(operator, before)
        )


THEMES = (
    pairs_norms, pairs_activations, pairs_losses, pairs_recurrent, pairs_spatial,
    pairs_order, pairs_shapes, pairs_attention, pairs_products, pairs_matrices,
)  # fmt: skip

RIGHT = tuple(pair for theme in THEMES for pair in theme.PAIRS)


def wrong_pairs():
    """Every wrong version: first those made by hand, then the mutants."""
    return [*by_hand(RIGHT), *chosen(RIGHT)]
