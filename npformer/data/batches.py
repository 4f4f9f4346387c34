"""Examples become a batch: three rectangles of token ids, padded at the end.

For the source "ab" and the target "xyz", beside a longer neighbour:

    src      a     b     [EOS] [PAD]      what the encoder reads
    tgt_in   [BOS] x     y     z     [PAD]      what the decoder reads
    tgt_out  x     y     z     [EOS] [PAD]      what it is to say next at each position

tgt_in is tgt_out one place later, so position t never sees the token it predicts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from npformer.data.vocabulary import BOS_ID, EOS_ID, PAD_ID, Vocabulary
from npformer.errors import DataError

TokenIds: TypeAlias = npt.NDArray[np.int64]


class Example(NamedTuple):
    """A text, and the text to be made of it."""

    source: str
    target: str


class Batch(NamedTuple):
    """Token ids of B examples; 0 is padding."""

    src: TokenIds  # (B, S)
    tgt_in: TokenIds  # (B, T)
    tgt_out: TokenIds  # (B, T)


def collate(examples: Sequence[Example], vocabulary: Vocabulary) -> Batch:
    """Encode examples and pad them to the longest. Returns src (B, S), tgt_in and tgt_out (B, T), int64.

    Raises DataError if there are no examples, TokenError at a character that the vocabulary lacks.
    """
    if not examples:
        raise DataError("examples: expected at least one, got none; a batch cannot be empty")
    sources = [vocabulary.encode(source) for source, _ in examples]
    targets = [vocabulary.encode(target) for _, target in examples]
    return Batch(
        src=_padded([[*ids, EOS_ID] for ids in sources]),
        tgt_in=_padded([[BOS_ID, *ids] for ids in targets]),
        tgt_out=_padded([[*ids, EOS_ID] for ids in targets]),
    )


def _padded(rows: list[list[int]]) -> TokenIds:
    width = max(map(len, rows))
    return np.array([row + [PAD_ID] * (width - len(row)) for row in rows], dtype=np.int64)
