"""What the trainer asks of a task: a batch for every step, and examples never trained on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from npformer.data.batches import Batch, Example, TokenBatch
from npformer.data.tokenizer import Tokenizer
from npformer.data.vocabulary import Vocabulary

#: What is asked: a text for a text, a class for a text, a class for each word, hidden words, the next token.
Kind = Literal["translate", "classify", "tag", "masked", "causal"]


class Task(Protocol):
    """Anything with these members can be trained on.

    A task has no state that a resumed run would have to restore: the batch of a step
    follows from the task's options, its seed, the step and the batch size alone.
    """

    @property
    def name(self) -> str:
        """What to call the task in a log."""

    @property
    def kind(self) -> Kind:
        """What is asked, and so which model answers: an encoder-decoder, an encoder with a head, a decoder."""

    @property
    def tokenizer(self) -> Tokenizer:
        """What cuts text into pieces."""

    @property
    def vocabulary(self) -> Vocabulary:
        """The pieces of sources and targets alike: the tokenizer's."""

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes by id, the first one [PAD], which is none; () where targets are tokens."""

    @property
    def max_length(self) -> int:
        """Tokens of the longest row that a model is given, special ones counted: the positions that it needs."""

    def batch(self, step: int, batch_size: int) -> Batch | TokenBatch:
        """The training batch of a step, counted from 1: the same whenever, and however often, it is asked.

        Its last array is the targets, those before it the model's inputs.
        """

    def collate(self, examples: Sequence[Example]) -> Batch | TokenBatch:
        """A batch of these examples, in their order: what a model is measured on."""

    def held_out(self, count: int | None = None) -> list[Example]:
        """The first `count` held-out examples (None: as many as the task deems enough), all distinct."""
