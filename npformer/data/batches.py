"""Examples become a batch: rectangles of token ids, padded at the end, the targets last.

For the source "ab" and the target "xyz", beside a longer neighbour:

    src      a     b     [EOS] [PAD]      what the encoder reads
    tgt_in   [BOS] x     y     z     [PAD]      what the decoder reads
    tgt_out  x     y     z     [EOS] [PAD]      the token to predict at each position

tgt_in is tgt_out shifted right by one, so position t never sees the token it predicts. An encoder or a decoder alone
reads tokens, and has its targets beside them:

    classify   tokens [CLS] a b [PAD]    targets (B,), a class for each row
    tag        tokens a b [PAD]          targets (B, T), a class for each token
    masked     tokens a [MASK] c d       targets (B, T): b where it is hidden, [PAD] elsewhere
    causal     tokens [BOS] a b c        targets (B, T): a b c d, the next tokens

A target of 0 is [PAD] everywhere and never counts. So classes are numbered from 1, and class 0 is
called [PAD] too: a model has an output for it, which it learns not to predict.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from npformer.data.tokenizer import Tokenizer
from npformer.data.vocabulary import PAD_ID, Vocabulary
from npformer.errors import DataError, TokenError

TokenIds: TypeAlias = npt.NDArray[np.int64]


class Example(NamedTuple):
    """A source text, and its target: a text, the name of a class, or a tag for each word."""

    source: str
    target: str


class Batch(NamedTuple):
    """Token ids of B examples; 0 is padding."""

    src: TokenIds  # (B, S)
    tgt_in: TokenIds  # (B, T)
    tgt_out: TokenIds  # (B, T)


class TokenBatch(NamedTuple):
    """Token ids of B examples, and the targets of a model of one sequence; a target of 0 does not count."""

    tokens: TokenIds  # (B, T)
    targets: TokenIds  # (B,) or (B, T)


def collate(examples: Sequence[Example], vocabulary: Vocabulary | Tokenizer) -> Batch:
    """Encode examples and pad them to the longest. Returns src (B, S), tgt_in and tgt_out (B, T), int64.

    Raises DataError if there are no examples, TokenError at a character, or [BOS] or [EOS], that the
    vocabulary lacks.
    """
    expect_examples(examples)
    pieces = vocabulary if isinstance(vocabulary, Vocabulary) else vocabulary.vocabulary
    first, last = pieces.id_of("[BOS]"), pieces.id_of("[EOS]")
    return batch_of(
        [(vocabulary.encode(source), vocabulary.encode(target)) for source, target in examples], first, last
    )


def batch_of(rows: Sequence[tuple[list[int], list[int]]], first: int, last: int) -> Batch:
    """A batch of the ids of sources and targets; first is [BOS], last [EOS]."""
    return Batch(
        src=padded([[*source, last] for source, _ in rows]),
        tgt_in=padded([[first, *target] for _, target in rows]),
        tgt_out=padded([[*target, last] for _, target in rows]),
    )


def class_ids(names: Sequence[str], classes: Sequence[str]) -> list[int]:
    """The ids of classes by name; [PAD] is no class. Raises TokenError for an unknown name."""
    ids = {name: number for number, name in enumerate(classes) if number != PAD_ID}
    for name in names:
        if name not in ids:
            raise TokenError(f"target: expected one of {', '.join(ids)}, got {name!r}")
    return [ids[name] for name in names]


def expect_examples(examples: Sequence[Example]) -> None:
    """Raise DataError if there are no examples."""
    if not examples:
        raise DataError("examples: expected at least one, got none; a batch cannot be empty")


def padded(rows: Sequence[Sequence[int]]) -> TokenIds:
    """Rows of ids as (B, longest), padded with [PAD]."""
    width = max(map(len, rows))
    return np.array([[*row, *[PAD_ID] * (width - len(row))] for row in rows], dtype=np.int64)
