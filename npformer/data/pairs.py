"""Parallel text from a file of source<TAB>target lines, character by character.

Text is taken as it is, without Unicode normalisation: "é" as one code point and as "e"
with a combining accent are different texts, and an example of one says nothing of the
other. A hash of the source, not the seed, decides what is held out, so lines with
equal sources stay on one side, and adding lines moves none of the others.

An epoch is shuffled, cut into pools of some batches, and only each pool is sorted by
length: neighbours of one length need little padding, and chance still decides who meets.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from npformer.data.batches import Batch, Example, collate
from npformer.data.checks import whole_number
from npformer.data.textfile import read_lines
from npformer.data.vocabulary import Vocabulary
from npformer.errors import ConfigError, DataError

_POOL_BATCHES = 16


class PairsTask:
    """Examples split once into training and held-out; batches run through epochs of the training side.

    Attributes: `name`; `vocabulary`, of all examples; `max_length`, in tokens; `digest`, the
    SHA-256 of the file; `train_size`, the number of training examples. Raises DataError if a
    side is empty, ConfigError if an option makes no sense.
    """

    def __init__(
        self,
        examples: Sequence[Example],
        *,
        name: str,
        digest: str,
        seed: int,
        held_out_fraction: float = 0.1,
    ) -> None:
        if not 0 < held_out_fraction < 1:
            raise ConfigError(f"held_out_fraction: expected more than 0 and less than 1, got {held_out_fraction}")
        self.name, self.digest = name, digest
        self._seed = whole_number("seed", seed, at_least=0)
        self.vocabulary = Vocabulary.from_characters(text for example in examples for text in example)
        self.max_length = max((len(text) for example in examples for text in example), default=0) + 1
        self._train, self._held_out = _split(examples, held_out_fraction)
        _check_both_sides(name, self._train, self._held_out, held_out_fraction)
        self.train_size = len(self._train)
        self._plan: tuple[tuple[int, int], list[npt.NDArray[np.intp]]] = ((-1, -1), [])

    @classmethod
    def from_tsv(cls, path: str | os.PathLike[str], *, seed: int, held_out_fraction: float = 0.1) -> PairsTask:
        """Read UTF-8 lines of source<TAB>target, no header; lines may end in \\r\\n.

        Raises DataError naming the file, and the line where there is one to blame.
        """
        lines, digest = read_lines(path)
        examples = [_parse(path, number, line) for number, line in enumerate(lines, start=1)]
        return cls(examples, name=Path(path).name, digest=digest, seed=seed, held_out_fraction=held_out_fraction)

    def batch(self, step: int, batch_size: int) -> Batch:
        """The training batch of `step` (from 1); every example comes once per epoch of ceil(size / B) steps.

        One batch of an epoch may be smaller than `batch_size`.
        """
        step = whole_number("step", step, at_least=1)
        batch_size = whole_number("batch_size", batch_size, at_least=1)
        epoch, place = divmod(step - 1, -(-self.train_size // batch_size))
        rows = self._epoch_plan(epoch, batch_size)[place]
        return collate([self._train[row] for row in rows], self.vocabulary)

    def held_out(self, count: int | None = None) -> list[Example]:
        """The first `count` (None: all) held-out examples, by hash: every prefix is a fair sample."""
        return self._held_out[: None if count is None else whole_number("count", count, at_least=1)]

    def _epoch_plan(self, epoch: int, batch_size: int) -> list[npt.NDArray[np.intp]]:
        """The rows of every batch of an epoch. The latest plan is kept: for speed, it can be made again."""
        if self._plan[0] != (epoch, batch_size):
            self._plan = (epoch, batch_size), self._make_plan(epoch, batch_size)
        return self._plan[1]

    def _make_plan(self, epoch: int, batch_size: int) -> list[npt.NDArray[np.intp]]:
        random = np.random.default_rng([self._seed, epoch])
        order = random.permutation(self.train_size)
        lengths = np.array([(len(target), len(source)) for source, target in self._train]).T
        batches: list[npt.NDArray[np.intp]] = []
        for start in range(0, self.train_size, batch_size * _POOL_BATCHES):
            pool = order[start : start + batch_size * _POOL_BATCHES]
            pool = pool[np.lexsort(lengths[:, pool])]  # by source, then by target
            batches += [pool[i : i + batch_size] for i in range(0, len(pool), batch_size)]
        return [batches[i] for i in random.permutation(len(batches))]


def _parse(path: str | os.PathLike[str], number: int, line: str) -> Example:
    fields = line.removesuffix("\r").split("\t")
    if len(fields) != 2:
        tabs = "no tab" if len(fields) == 1 else f"{len(fields) - 1} tabs"
        found = tabs if line.strip() else "an empty line"
        raise DataError(f"{path}, line {number}: expected source<TAB>target, got {found}: {line[:60]!r}")
    for side, text in zip(("source", "target"), fields, strict=True):
        if not text:
            raise DataError(
                f"{path}, line {number}: expected a {side}, got an empty one: {line[:60]!r}; "
                "fill it in or delete the line"
            )
    return Example(*fields)


def _split(examples: Sequence[Example], fraction: float) -> tuple[list[Example], list[Example]]:
    """Training examples in the order given; distinct held-out ones in the order of their hashes."""
    hashes = [_unit_hash(example.source) for example in examples]
    train = [example for example, u in zip(examples, hashes, strict=True) if u >= fraction]
    held_out = {example: u for example, u in zip(examples, hashes, strict=True) if u < fraction}
    return train, sorted(held_out, key=held_out.__getitem__)


def _unit_hash(source: str) -> float:
    """A number in [0, 1) that depends on the source alone, on every machine alike."""
    words = hashlib.blake2b(source.encode(), digest_size=8).digest()
    return (int.from_bytes(words, "big") >> 11) / 2**53  # 53 bits: what a float64 holds exactly


def _check_both_sides(name: str, train: list[Example], held_out: list[Example], fraction: float) -> None:
    for side, examples, remedy in (("training", train, "lower"), ("held-out", held_out, "raise")):
        if not examples:
            raise DataError(
                f"{name}: expected lines on both sides, but none is {side} at held_out_fraction={fraction}; "
                f"{remedy} it, or add lines with other sources"
            )
