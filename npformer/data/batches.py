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

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from npformer.data.tokenizer import Tokenizer
from npformer.data.vocabulary import PAD_ID, Vocabulary
from npformer.errors import DataError, TokenError, whole_number

TokenIds: TypeAlias = npt.NDArray[np.int64]


class Example(NamedTuple):
    """A source text, and its target: a text, the name of a class, or a tag for each word."""

    source: str
    target: str


class Texts(NamedTuple):
    """The ids of texts: text i is ids[starts[i] : starts[i] + lengths[i]]."""

    ids: TokenIds  # (N,), with N >= 1
    starts: npt.NDArray[np.intp]  # (B,)
    lengths: npt.NDArray[np.intp]  # (B,)

    @classmethod
    def of(cls, rows: Iterable[Sequence[int]]) -> Texts:
        """Texts with these ids."""
        rows = list(rows)
        lengths = np.array([len(row) for row in rows], dtype=np.intp)
        return cls(np.array([*chain.from_iterable(rows), PAD_ID], dtype=np.int64), lengths.cumsum() - lengths, lengths)

    def chosen(self, rows: npt.NDArray[np.intp]) -> Texts:
        """The texts of these numbers."""
        return Texts(self.ids, self.starts[rows], self.lengths[rows])

    def padded(self, *, first: int | None = None, last: int | None = None) -> TokenIds:
        """They as (B, longest), padded with [PAD]; before each stands the id first, behind each the id last."""
        lengths = self.lengths[:, None]
        places = np.arange(0 if first is None else -1, lengths.max() + (last is not None))  # within a text
        rows: TokenIds = self.ids.take(self.starts[:, None] + places, mode="clip")
        rows[places >= lengths] = PAD_ID
        if first is not None:
            rows[:, 0] = first
        if last is not None:
            rows[places == lengths] = last
        return rows


class Tokenized:
    """What a task has of its name and its tokenizer."""

    name: str
    tokenizer: Tokenizer

    def __repr__(self) -> str:
        return f"<task {self.name}, {self.tokenizer!r}>"

    @property
    def vocabulary(self) -> Vocabulary:
        """The tokenizer's vocabulary: the pieces of both sources and targets."""
        return self.tokenizer.vocabulary


class Batch(NamedTuple):
    """Token ids of B examples; 0 is padding."""

    src: TokenIds  # (B, S)
    tgt_in: TokenIds  # (B, T)
    tgt_out: TokenIds  # (B, T)


class TokenBatch(NamedTuple):
    """Token ids of B examples, and the targets of a model of one sequence; a target of 0 does not count."""

    tokens: TokenIds  # (B, T)
    targets: TokenIds  # (B,) or (B, T)


def collate(examples: Sequence[Example], tokenizer: Tokenizer) -> Batch:
    """Encode examples and pad them to the longest. Returns src (B, S), tgt_in and tgt_out (B, T), int64.

    Raises DataError if there are no examples, TokenError at a character, or [BOS] or [EOS], that the
    vocabulary lacks.
    """
    expect_examples(examples)
    sources, targets = (Texts.of(map(tokenizer.encode, texts)) for texts in zip(*examples, strict=True))
    return batch_of(sources, targets, tokenizer.vocabulary)


def batch_of(sources: Texts, targets: Texts, vocabulary: Vocabulary) -> Batch:
    """A batch of these texts. Raises TokenError if the vocabulary lacks [BOS] or [EOS]."""
    first, last = vocabulary.id_of("[BOS]"), vocabulary.id_of("[EOS]")
    return Batch(
        src=sources.padded(last=last),
        tgt_in=targets.padded(first=first),
        tgt_out=targets.padded(last=last),
    )


def class_ids(names: Sequence[str], classes: Sequence[str]) -> list[int]:
    """The ids of classes by name; [PAD] is no class. Raises TokenError for an unknown name."""
    ids = {name: number for number, name in enumerate(classes) if number != PAD_ID}
    for name in names:
        if name not in ids:
            raise TokenError(f"target: expected one of {', '.join(ids)}, got {name!r}")
    return [ids[name] for name in names]


def batch_arguments(step: object, batch_size: object) -> tuple[int, int]:
    """The arguments of a task's ``batch`` as ints. Raises ConfigError unless both are whole numbers >= 1."""
    return whole_number("step", step, at_least=1), whole_number("batch_size", batch_size, at_least=1)


def expect_examples(examples: Sequence[Example]) -> None:
    """Raise DataError if there are no examples."""
    if not examples:
        raise DataError("examples: expected at least one, got none; a batch cannot be empty")


def padded(rows: Iterable[Sequence[int]]) -> TokenIds:
    """Rows of ids as (B, longest), padded with [PAD]."""
    return Texts.of(rows).padded()
