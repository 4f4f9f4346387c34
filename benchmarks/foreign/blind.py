"""A second list, kept apart from the first: right pairs and mistakes made by hand, a third of them tiny."""

from benchmarks.foreign import (
    blind_attention,
    blind_block,
    blind_recurrent,
    blind_sequences,
    blind_short,
    blind_sparse,
    blind_steps,
)
from benchmarks.foreign.pair import by_hand

BLIND_THEMES = (
    blind_recurrent, blind_attention, blind_block, blind_steps, blind_sparse, blind_sequences, blind_short,
)  # fmt: skip

BLIND_RIGHT = tuple(pair for theme in BLIND_THEMES for pair in theme.PAIRS)


def blind_wrong():
    """Every mistake of these pairs, each made by hand."""
    return by_hand(BLIND_RIGHT)
