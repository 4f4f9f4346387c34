"""The complete list: all right pairs, and the wrong backwards of each."""

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
from benchmarks.foreign.mutated import chosen
from benchmarks.foreign.pair import Wrong

THEMES = (
    pairs_norms, pairs_activations, pairs_losses, pairs_recurrent, pairs_spatial,
    pairs_order, pairs_shapes, pairs_attention, pairs_products, pairs_matrices,
)  # fmt: skip

RIGHT = tuple(pair for theme in THEMES for pair in theme.PAIRS)


def wrong_pairs():
    """Every wrong version: first those made by hand, then the mutants."""
    by_hand = [
        Wrong(f"{pair.name}: {edit.what}", pair, edit.apply(pair.backward), True, edit.kinds)
        for pair in RIGHT
        for edit in pair.edits
    ]
    return [*by_hand, *chosen(RIGHT)]
