"""What the trainer asks of a task: a batch for every step, and examples never trained on."""

from __future__ import annotations

from typing import Protocol

from npformer.data.batches import Batch, Example
from npformer.data.vocabulary import Vocabulary


class Task(Protocol):
    """Anything with these members can be trained on.

    A task has no state that a resumed run would have to restore: the batch of a step
    follows from the task's options, its seed, the step and the batch size alone.
    """

    @property
    def name(self) -> str:
        """What to call the task in a log."""

    @property
    def vocabulary(self) -> Vocabulary:
        """The pieces of sources and targets alike."""

    @property
    def max_length(self) -> int:
        """Tokens of the longest source or target, [EOS] or [BOS] counted: the positions a model needs."""

    def batch(self, step: int, batch_size: int) -> Batch:
        """The training batch of a step, counted from 1: the same whenever, and however often, it is asked."""

    def held_out(self, count: int | None = None) -> list[Example]:
        """The first `count` held-out examples (None: as many as the task deems enough), all distinct."""
