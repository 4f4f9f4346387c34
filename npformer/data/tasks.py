"""The interface of a task for the trainer: a batch for every step, and held-out examples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from npformer.data.batches import Batch, Example, TokenBatch
from npformer.data.tokenizer import Tokenizer
from npformer.data.vocabulary import Vocabulary

#: Text to text, a class for a text, a class for each word, hidden words, the next token.
Kind = Literal["translate", "classify", "tag", "masked", "causal"]


class Task(Protocol):
    """Anything with these members can be trained on.

    A task has no state that a resumed run would have to restore: the batch of a step
    is a function of the task's options, its seed, the step and the batch size.
    """

    @property
    def name(self) -> str:
        """The task's name in a log."""

    @property
    def kind(self) -> Kind:
        """The kind of task, and so of its model: an encoder-decoder, an encoder with a head, a decoder."""

    @property
    def tokenizer(self) -> Tokenizer:
        """Splits text into pieces."""

    @property
    def vocabulary(self) -> Vocabulary:
        """The pieces of both sources and targets: the tokenizer's vocabulary."""

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes by id, the first one [PAD], which is no class; () if targets are tokens."""

    @property
    def max_length(self) -> int:
        """Tokens of the longest input row, special ones included: the positions that a model needs."""

    def batch(self, step: int, batch_size: int) -> Batch | TokenBatch:
        """The training batch of a step, counted from 1: the same at every call.

        The last array holds the targets, the arrays before it the model's inputs.
        """

    def collate(self, examples: Sequence[Example]) -> Batch | TokenBatch:
        """A batch of these examples, in their order, for evaluation."""

    def held_out(self, count: int | None = None) -> list[Example]:
        """The first `count` held-out examples (None: the task's default number), all distinct."""
