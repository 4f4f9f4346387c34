"""Copy, reverse or sort a word of random letters: tasks without a file, with endless data.

Only a hash of the source decides its side: one source in 16 is held
out, whatever the seed, the lengths and the number of letters. So no held-out source is
ever trained on, and no list of them is needed. The hash reads the word
as a number in a large odd base, modulo 2^64, and mixes it with the finaliser of
SplitMix64 (Steele, Lea & Flood 2014): a few array operations, no call for each word.

Lengths are mixed within a batch. Sorting by length would make a batch depend on its neighbours,
or give all its words one length; words are short, so padding them is cheaper.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from npformer.data.batches import Batch, Example, Texts, TokenIds, Tokenized, batch_arguments, batch_of, collate
from npformer.data.tokenizer import Characters, Tokenizer
from npformer.data.vocabulary import SEQUENCE
from npformer.errors import ConfigError, TokenError, whole_number

#: Words as ASCII codes, (rows, longest), padded with zeros.
_Words: TypeAlias = npt.NDArray[np.uint8]
_Lengths: TypeAlias = npt.NDArray[np.intp]

#: The targets of words with these lengths (rows,).
_TARGETS: dict[str, Callable[[_Words, _Lengths], _Words]] = {
    "copy": lambda words, lengths: words,
    "reverse": lambda words, lengths: _backwards(words, lengths),
    "sort": lambda words, lengths: np.sort(words - 1) + 1,  # zeros are the largest meanwhile: 0 − 1 is 255
}
_FIRST_LETTER = ord("a")
_CHUNK = 4096
MOST_LETTERS = 2048  # the longest word: a chunk of such words takes 64 MiB to hash
_TRAINING, _HELD_OUT = 0, 1  # two streams of random numbers that never meet
_GOLDEN = 0x9E3779B97F4A7C15


class SequenceTask(Tokenized):
    """Copy, reverse or sort (`name`) words of `min_length` to `max_length` of the first `symbols` letters.

    The constructor's lengths count letters, 2,048 at most; the attribute `max_length` counts tokens, as in
    every Task, and is one more. Training words have lengths drawn uniformly. Raises ConfigError
    if an option is out of range, or if all possible words fall on one side.
    """

    kind: Literal["translate"] = "translate"
    classes: tuple[str, ...] = ()

    def __init__(self, name: str, *, seed: int, symbols: int = 26, min_length: int = 1, max_length: int = 12) -> None:
        if name not in _TARGETS:
            raise ConfigError(f"task: expected one of {', '.join(_TARGETS)}, got {name!r}")
        self.name = name
        self._seed = whole_number("seed", seed, at_least=0)
        self._symbols = whole_number("symbols", symbols, at_least=2, at_most=26)
        self._shortest = whole_number("min_length", min_length, at_least=1, at_most=MOST_LETTERS)
        self._longest = whole_number("max_length", max_length, at_least=self._shortest, at_most=MOST_LETTERS)
        self.max_length = self._longest + 1
        self.retokenize(Characters.learn(map(chr, self._letters), special=SEQUENCE), ())
        self._check_both_sides()

    def batch(self, step: int, batch_size: int) -> Batch:
        """The training batch of `step` (from 1): src, tgt_in and tgt_out, each (B, longest in it + 1)."""
        step, batch_size = batch_arguments(step, batch_size)
        random = np.random.default_rng([self._seed, _TRAINING, step])
        words = np.empty((0, self._longest), np.uint8)
        while len(words) < batch_size:
            drawn = self._draw(random, batch_size + batch_size // 8 + 4)  # a few more: 1 in 16 is held out
            words = np.concatenate([words, drawn[~_is_held_out(drawn)]])
        words = words[:batch_size]
        if self._ids is None:
            return self.collate(self._examples(words))
        lengths, starts = _lengths(words), np.arange(0, words.size, self._longest)
        sides = words, _TARGETS[self.name](words, lengths)
        sources, targets = (Texts(self._ids.take(side).ravel(), starts, lengths) for side in sides)
        return batch_of(sources, targets, self.vocabulary)

    def collate(self, examples: Sequence[Example]) -> Batch:
        """A batch of these examples, in their order. Raises DataError if there are none, or TokenError."""
        return collate(examples, self.tokenizer)

    def held_out(self, count: int | None = None) -> list[Example]:
        """The first `count` (None: 1000) held-out examples, or all that exist if they are fewer."""
        count = 1000 if count is None else whole_number("count", count, at_least=1)
        return list(itertools.islice(self._held_out_examples(), count))

    def retokenize(self, tokenizer: Tokenizer, classes: tuple[str, ...]) -> None:
        """Read the words by another tokenizer; there are no classes."""
        self.tokenizer = tokenizer
        self._ids = _ids_by_code(tokenizer, "".join(map(chr, self._letters)))

    @property
    def _letters(self) -> range:
        return range(_FIRST_LETTER, _FIRST_LETTER + self._symbols)

    def _examples(self, words: _Words) -> list[Example]:
        return list(map(Example, _as_text(words), _as_text(_TARGETS[self.name](words, _lengths(words)))))

    def _draw(self, random: np.random.Generator, rows: int) -> _Words:
        letters = random.integers(self._letters.start, self._letters.stop, (rows, self._longest), np.uint8)
        lengths = random.integers(self._shortest, self._longest + 1, (rows, 1))
        letters[np.arange(self._longest) >= lengths] = 0
        return letters

    def _held_out_examples(self) -> Iterator[Example]:
        """Those of words drawn as in training, until a chunk brings nothing new; then the few remaining words."""
        seen: set[Example] = set()
        for chunk in itertools.count():
            drawn = self._draw(np.random.default_rng([self._seed, _HELD_OUT, chunk]), _CHUNK)
            fresh = dict.fromkeys(each for each in self._examples(drawn[_is_held_out(drawn)]) if each not in seen)
            if not fresh:
                break
            seen.update(fresh)
            yield from fresh
        for words in self._all_words():
            yield from (each for each in self._examples(words[_is_held_out(words)]) if each not in seen)

    def _all_words(self) -> Iterator[_Words]:
        for length in range(self._shortest, self._longest + 1):
            remaining = itertools.product(self._letters, repeat=length)
            while chunk := list(itertools.islice(remaining, _CHUNK)):
                words = np.zeros((len(chunk), self._longest), np.uint8)
                words[:, :length] = chunk
                yield words

    def _check_both_sides(self) -> None:
        """Raise ConfigError if one side has no words, since drawing for it would never end."""
        sides = set()
        for words in self._all_words():  # the first chunk decides unless there are few words in all
            sides.update(_is_held_out(words).tolist())
            if len(sides) == 2:
                return
        missing = "train on" if True in sides else "hold out"
        raise ConfigError(
            f"symbols={self._symbols}, min_length={self._shortest}, max_length={self._longest}: expected "
            f"enough different words for both training and held-out, got none to {missing}; "
            "allow more symbols or a larger max_length"
        )


def _is_held_out(words: _Words) -> npt.NDArray[np.bool_]:
    """True (rows,) for the words in the first of 16 buckets; trailing zeros change nothing."""
    places = np.full(words.shape[1], _GOLDEN, np.uint64).cumprod()  # wraps modulo 2^64, as intended
    z = words.astype(np.uint64) @ places
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    held_out: npt.NDArray[np.bool_] = (z ^ (z >> np.uint64(31))) >> np.uint64(60) == 0
    return held_out


def _ids_by_code(tokenizer: Tokenizer, letters: str) -> TokenIds | None:
    """The id of each letter by its ASCII code, and [PAD] for 0; None if the ids of a text are not its letters'."""
    if not isinstance(tokenizer, Characters):
        return None
    ids = np.zeros(128, np.int64)
    try:
        ids[list(map(ord, letters))] = tokenizer.encode(letters)
    except TokenError:  # which a batch raises, if it has such a letter
        return None
    return ids


def _lengths(words: _Words) -> _Lengths:
    lengths: _Lengths = (words != 0).sum(axis=1)
    return lengths


def _backwards(words: _Words, lengths: _Lengths) -> _Words:
    """Each word from its end; places below 0 count from the end of a row, and there are zeros."""
    places = lengths[:, None] - 1 - np.arange(words.shape[1])
    turned: _Words = words[np.arange(len(words))[:, None], places]
    return turned


def _as_text(words: _Words) -> list[str]:
    """Each row as a str: NumPy's fixed-width bytes drop the zeros at the end by themselves."""
    if not len(words):
        return []
    fixed_width = np.ascontiguousarray(words).view(f"S{words.shape[1]}")[:, 0]
    texts: list[str] = fixed_width.astype(str).tolist()
    return texts
