"""One long text, cut into windows: predict the next token, or hidden tokens.

    causal   a window of T tokens; [BOS] stands for the text before it, and every token is predicted
    masked   15 % of the tokens of each window are predicted: of these 80 % are replaced by [MASK], 10 % by
             another piece, 10 % are unchanged (so a model cannot trust its inputs: Devlin et al. 2019)

Windows begin and end between the tokenizer's units (characters, or words of several pieces). Training windows begin
anywhere; held-out windows follow each other, so each unit is evaluated at most once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from npformer.data.batches import (
    Example,
    Texts,
    TokenBatch,
    TokenIds,
    Tokenized,
    batch_arguments,
    expect_examples,
    padded,
)
from npformer.data.splits import unit_hash
from npformer.data.tokenizer import Characters, Tokenizer
from npformer.data.vocabulary import BOS_ID
from npformer.errors import ConfigError, whole_number

ASKED, HIDDEN, REPLACED = 0.15, 0.8, 0.1


class TextTask(Tokenized):
    """Windows of at most max_length tokens of a training text and of a held-out text. See Task for its members.

    A held-out example is a window's text, as source and target; collate masks it by a hash of the text, so always in
    the same way. Raises ConfigError if a text is shorter than a window, or max_length is below 2.
    """

    classes: tuple[str, ...] = ()

    def __init__(
        self,
        name: str,
        kind: Literal["masked", "causal"],
        tokenizer: Tokenizer,
        train: str,
        held_out: str,
        *,
        seed: int,
        digest: str,
        max_length: int = 128,
    ) -> None:
        self.name, self.digest, self._sides = name, digest, (train, held_out)
        self.kind: Literal["masked", "causal"] = kind
        self._seed = whole_number("seed", seed, at_least=0)
        self.max_length = whole_number("max_length", max_length, at_least=2)
        self.retokenize(tokenizer, ())

    def retokenize(self, tokenizer: Tokenizer, classes: tuple[str, ...]) -> None:
        """Read the text by another tokenizer; there are no classes. Raises ConfigError if its tokens are too few."""
        train, held_out = self._sides
        self.tokenizer = tokenizer
        self._ids, self._starts = _encoded(train, tokenizer)
        stop = int(np.searchsorted(self._starts, len(self._ids) - self.max_length, "right"))
        if stop < 1:
            raise ConfigError(
                f"max_length: expected at most {len(self._ids)}, the tokens of the training text of {self.name}, "
                f"got {self.max_length}; shorten the windows, or add text"
            )
        self._windows = _cut(held_out, tokenizer, self.max_length)
        self._first_starts = self._starts[:stop]  # starts with a whole window after them
        pieces = tokenizer.vocabulary
        self._text_ids = np.array(sorted(set(range(len(pieces))) - pieces.special_ids), dtype=np.int64)

    def batch(self, step: int, batch_size: int) -> TokenBatch:
        """The training batch of `step` (from 1): windows that begin at random units."""
        step, batch_size = batch_arguments(step, batch_size)
        random = np.random.default_rng([self._seed, step])
        starts = random.choice(self._first_starts, batch_size)
        ends = self._starts[np.searchsorted(self._starts, starts + self.max_length, "right") - 1]
        rows = Texts(self._ids, starts, ends - starts).padded()
        return self._causal(rows) if self.kind == "causal" else self._masked(rows, random.random((3, *rows.shape)))

    def collate(self, examples: Sequence[Example]) -> TokenBatch:
        """A batch of these windows, in their order. Raises DataError if there are none."""
        expect_examples(examples)
        rows = padded([self.tokenizer.encode(source) for source, _ in examples])
        if self.kind == "causal":
            return self._causal(rows)
        seeds = [int(unit_hash(source) * 2**53) for source, _ in examples]
        chances = [np.random.default_rng(seed).random((rows.shape[1], 3)).T for seed in seeds]
        return self._masked(rows, np.stack(chances, axis=1))

    def held_out(self, count: int | None = None) -> list[Example]:
        """count windows (None: all), spread evenly over the held-out text, in its order."""
        if count is None or whole_number("count", count, at_least=1) >= len(self._windows):
            return list(self._windows)
        return [self._windows[i * len(self._windows) // count] for i in range(count)]

    def _causal(self, rows: TokenIds) -> TokenBatch:
        first = np.full((len(rows), 1), BOS_ID, dtype=np.int64)
        return TokenBatch(np.concatenate([first, rows[:, :-1]], axis=1), rows)

    def _masked(self, rows: TokenIds, chances: npt.NDArray[np.float64]) -> TokenBatch:
        """chances (3, B, T) in [0, 1): whether a token is predicted, how it is changed, what replaces it."""
        asked = (chances[0] < ASKED) & (rows != 0)
        asked[np.arange(len(rows)), np.where(rows != 0, chances[0], 1.0).argmin(axis=1)] = True  # at least one
        others = self._text_ids[(chances[2] * len(self._text_ids)).astype(np.int64)]
        tokens = np.where(asked & (chances[1] < HIDDEN), self.vocabulary.id_of("[MASK]"), rows)
        replaced = asked & (chances[1] >= HIDDEN) & (chances[1] < HIDDEN + REPLACED)
        return TokenBatch(np.where(replaced, others, tokens), np.where(asked, rows, 0))


def _encoded(text: str, tokenizer: Tokenizer) -> tuple[TokenIds, npt.NDArray[np.intp]]:
    """The ids of a text, the start of each unit among them, and the end of the last unit."""
    if isinstance(tokenizer, Characters):
        return _encoded_characters(text, tokenizer)
    known: dict[str, list[int]] = {}
    rows = [known.setdefault(unit, known.get(unit) or tokenizer.encode(unit)) for unit in tokenizer.units(text)]
    starts = np.concatenate([[0], np.cumsum([len(row) for row in rows], dtype=np.intp)])
    return np.array([token for row in rows for token in row], dtype=np.int64), starts


def _encoded_characters(text: str, tokenizer: Tokenizer) -> tuple[TokenIds, npt.NDArray[np.intp]]:
    """The same without a Python object for each character of a long text."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    ids = np.zeros(0x110000, dtype=np.int64)
    for character in set(text):
        (ids[ord(character)],) = tokenizer.encode(character)
    return ids[codes], np.arange(len(codes) + 1)


def _cut(text: str, tokenizer: Tokenizer, max_length: int) -> list[Example]:
    """Consecutive windows of as many units as fit; a unit that is longer than a window is left out."""
    units = tokenizer.units(text)
    _, starts = _encoded(text, tokenizer)
    windows: dict[Example, None] = {}  # distinct
    begin = 0
    while begin < len(units):
        end = int(np.searchsorted(starts, starts[begin] + max_length, "right")) - 1
        if end > begin:
            window = tokenizer.glue.join(units[begin:end])
            windows[Example(window, window)] = None
        begin = max(end, begin + 1)
    return list(windows)
