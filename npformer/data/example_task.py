"""A task made of two lists: training examples and held-out examples.

An epoch is shuffled and cut into pools of several batches, and each pool is sorted by
length. Neighbours of similar length need little padding, and batches are still random.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from npformer.data.batches import (
    Batch,
    Example,
    Texts,
    TokenBatch,
    Tokenized,
    batch_arguments,
    batch_of,
    class_ids,
    expect_examples,
)
from npformer.data.tokenizer import Tokenizer
from npformer.errors import DataError, whole_number

_POOL_BATCHES = 16


class ExampleTask(Tokenized):
    """Batches run through epochs of the training side. See Task for its members.

    Further attributes: `digest`, which changes with the data, and `train_size`, the number of
    training examples. A training example may occur more than once. `classes` are names without [PAD].
    """

    def __init__(
        self,
        name: str,
        kind: Literal["translate", "classify", "tag"],
        tokenizer: Tokenizer,
        train: Sequence[Example],
        held_out: Sequence[Example],
        *,
        seed: int,
        digest: str,
        classes: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.kind: Literal["translate", "classify", "tag"] = kind
        self.digest, self.train_size, self._seed = digest, len(train), seed
        self._examples, self._held_out = train, held_out
        self.retokenize(tokenizer, ("[PAD]", *classes) if classes else ())

    def retokenize(self, tokenizer: Tokenizer, classes: tuple[str, ...]) -> None:
        """Read the texts by another tokenizer, and give classes other ids; classes: all of them, [PAD] first."""
        self.tokenizer, self.classes = tokenizer, classes
        self._train = self._texts(self._examples)
        self._epochs = Epochs(np.array([texts.lengths for texts in reversed(self._train)]), self._seed)
        longest = max(texts.lengths.max(initial=0) for texts in (*self._train, *self._texts(self._held_out)))
        self.max_length = int(longest) + (self.kind == "translate")  # [BOS] or [EOS]

    def batch(self, step: int, batch_size: int) -> Batch | TokenBatch:
        """The training batch of `step` (from 1); every example occurs once per epoch of ceil(size / B) steps.

        One batch of an epoch may be smaller than `batch_size`.
        """
        rows = self._epochs.rows(step, batch_size)
        return self._batch_of(*(texts.chosen(rows) for texts in self._train))

    def collate(self, examples: Sequence[Example]) -> Batch | TokenBatch:
        """A batch of these examples, in their order.

        Raises DataError if there are no examples or a word has no tag, TokenError for text without an id.
        """
        expect_examples(examples)
        return self._batch_of(*self._texts(examples))

    def held_out(self, count: int | None = None) -> list[Example]:
        """The first `count` (None: all) held-out examples, by hash: every prefix is a fair sample."""
        return list(self._held_out[: None if count is None else whole_number("count", count, at_least=1)])

    def _texts(self, examples: Sequence[Example]) -> tuple[Texts, Texts]:
        """Sources and targets."""
        pairs = [self._ids(example) for example in examples]
        return Texts.of(source for source, _ in pairs), Texts.of(target for _, target in pairs)

    def _ids(self, example: Example) -> tuple[list[int], list[int]]:
        """The ids of source and target; a class has one id."""
        tokens = self.tokenizer.encode(example.source)
        if self.kind == "translate":
            return tokens, self.tokenizer.encode(example.target)
        if self.kind == "classify":
            return [self.vocabulary.id_of("[CLS]"), *tokens], class_ids([example.target], self.classes)
        tags = class_ids(example.target.split(), self.classes)
        if len(tags) != len(tokens):
            raise DataError(
                f"target: expected a tag for each of the {len(tokens)} tokens of {example.source[:60]!r}, "
                f"got {len(tags)}: {example.target[:60]!r}"
            )
        return tokens, tags

    def _batch_of(self, sources: Texts, targets: Texts) -> Batch | TokenBatch:
        if self.kind == "translate":
            return batch_of(sources, targets, self.vocabulary)
        answers = targets.padded()
        return TokenBatch(sources.padded(), answers if self.kind == "tag" else answers[:, 0])


class Epochs:
    """The rows of each batch: a function of the seed, the step and the batch size.

    lengths (k, rows): the lengths of each row's k texts; the last is the main sort key.
    """

    def __init__(self, lengths: npt.NDArray[np.int64], seed: int) -> None:
        self._lengths = lengths
        self._seed = whole_number("seed", seed, at_least=0)
        self._plan: tuple[tuple[int, int], list[npt.NDArray[np.intp]]] = ((-1, -1), [])

    def rows(self, step: int, batch_size: int) -> npt.NDArray[np.intp]:
        """The rows of the batch of `step`, counted from 1."""
        step, batch_size = batch_arguments(step, batch_size)
        epoch, place = divmod(step - 1, -(-self._lengths.shape[1] // batch_size))
        if self._plan[0] != (epoch, batch_size):  # the latest plan is cached for speed
            self._plan = (epoch, batch_size), self._make_plan(epoch, batch_size)
        rows: npt.NDArray[np.intp] = self._plan[1][place]
        return rows

    def _make_plan(self, epoch: int, batch_size: int) -> list[npt.NDArray[np.intp]]:
        random = np.random.default_rng([self._seed, epoch])
        rows = self._lengths.shape[1]
        order = random.permutation(rows)
        batches = []
        for start in range(0, rows, batch_size * _POOL_BATCHES):
            pool = order[start : start + batch_size * _POOL_BATCHES]
            pool = pool[np.lexsort(self._lengths[:, pool])]  # by source, then by target
            batches += [pool[i : i + batch_size] for i in range(0, len(pool), batch_size)]
        return [batches[i] for i in random.permutation(len(batches))]
