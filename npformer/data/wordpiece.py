"""WordPiece: frequent words are one piece, others are split into parts, so few words are unknown.

    unaffable → un ##aff ##able          ##: this piece continues the word

A word is split from the left, each time after the longest piece that fits (Devlin et al. 2019). If no piece
fits at some position, the whole word is unknown.

Learning starts from single characters and repeatedly merges two neighbours a b into one piece: the
pair that raises the likelihood of the text most, if each of its N pieces is drawn independently with probability
n_p/N. With f(n) = n·log n, that log-likelihood is Σ_p f(n_p) − f(N), and merging n neighbours a b adds

    f(n) + f(n_a − n) − f(n_a) + f(n_b − n) − f(n_b) + f(N) − f(N − n)

Texts with the same words learn the same pieces, whatever their order. Every character that occurs is
kept, at the start of a word and within, so a word of known characters is never unknown.

Source: Schuster & Nakajima 2012, "Japanese and Korean voice search", section 2; Wu et al. 2016,
arXiv:1609.08144, section 4.1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Self

import numpy as np
import numpy.typing as npt

from npformer.data.tokenizer import RESERVED, Tokenizer, count_words
from npformer.data.vocabulary import SPECIAL, Vocabulary
from npformer.errors import ConfigError, whole_number

GOES_ON = "##"
_NEVER = -(2**60)  # marks a pair that is never merged


class WordPiece(Tokenizer):
    """Words are split into parts, after the longest pieces that fit.

    What is encoded without [UNK] decodes to itself with its white space as single spaces.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__(vocabulary)
        text = vocabulary.text_pieces
        self._first = {piece for piece in text if not piece.startswith(GOES_ON)}
        self._further = {piece.removeprefix(GOES_ON) for piece in text - self._first}
        self._longest = max(map(len, self._first | self._further), default=0)

    @classmethod
    def learn(cls, texts: Iterable[str], size: int, *, min_count: int = 2, special: Sequence[str] = SPECIAL) -> Self:
        """A tokenizer with at most size pieces, special ones included; rarer pairs than min_count are not merged.

        Raises ConfigError if size is too small for the characters.
        """
        whole_number("min_count", min_count, at_least=1)
        words = count_words(texts)
        alphabet = sorted(set("".join(words)))
        least = len(special) + 2 * len(alphabet)
        if whole_number("size", size, at_least=1) < least:
            raise ConfigError(
                f"size: expected at least {least}, for {len(special)} special pieces and twice {len(alphabet)} "
                f"characters, got {size}; raise it, or leave rare characters out of the texts"
            )
        cut = _CutWords(words, [*alphabet, *(GOES_ON + character for character in alphabet)])
        cut.merge_until(size - len(special), min_count)
        return cls(Vocabulary((*special, *cut.pieces)))

    def _pieces(self, part: str) -> list[str] | None:
        pieces = []
        start, known, prefix = 0, self._first, ""
        while start < len(part):
            stop = min(len(part), start + self._longest)
            while stop > start and part[start:stop] not in known:
                stop -= 1
            if stop == start:
                return None
            pieces.append(prefix + part[start:stop])
            start, known, prefix = stop, self._further, GOES_ON
        return pieces

    def join(self, pieces: Iterable[str]) -> str:
        """The text of pieces: a space before each that begins a word."""
        parts = [piece.removeprefix(GOES_ON) if piece.startswith(GOES_ON) else f" {piece}" for piece in pieces]
        return "".join(parts).removeprefix(" ")


class _CutWords:
    """Distinct words as lists of pieces, with counts of pieces and of neighbours that are updated at each merge."""

    def __init__(self, words: Counter[str], alphabet: list[str]) -> None:
        self.pieces = alphabet
        self._ids = {piece: number for number, piece in enumerate(alphabet)}
        ordered = sorted(words)
        self._counts = [words[word] for word in ordered]
        self._words = [[self._ids[GOES_ON * (i > 0) + word[i]] for i in range(len(word))] for word in ordered]
        self._piece_counts = np.zeros(len(alphabet), np.int64)
        self._slots: dict[tuple[int, int], int] = {}  # a pair's index in the two arrays and the list below
        self._pairs = np.zeros((1024, 2), np.int64)
        self._pair_counts = np.zeros(1024, np.int64)
        self._places: list[set[int]] = []  # words with the pair, now or earlier
        for word in range(len(ordered)):
            self._count(word, 1)

    def merge_until(self, size: int, min_count: int) -> None:
        """Merge until there are size pieces, or no pair is frequent enough and makes the text likelier."""
        while len(self.pieces) < size:
            slots = np.flatnonzero(self._pair_counts >= min_count)
            gains = self._gains(slots)
            if not np.any(gains > 0):
                return
            best = int(slots[np.argmax(gains)])  # among equals the first, since words were sorted
            left, right = self._pairs[best].tolist()
            piece = self.pieces[left] + self.pieces[right].removeprefix(GOES_ON)
            if piece in RESERVED or (piece.startswith(GOES_ON) and not self.pieces[left].startswith(GOES_ON)):
                self._pair_counts[best] = _NEVER  # the merged piece would be read as something else
            else:
                self._merge(best, left, right, piece)

    def _gains(self, slots: npt.NDArray[np.intp]) -> npt.NDArray[np.float64]:
        """The gain in log-likelihood of merging each pair; if a piece merges with itself, its count falls twice."""
        n, total = self._pair_counts[slots], self._piece_counts.sum()
        n_a, n_b = self._piece_counts[self._pairs[slots].T]
        of_two = _f(n_a - n) - _f(n_a) + _f(n_b - n) - _f(n_b)
        of_one = _f(n_a - 2 * n) - _f(n_a)
        same = self._pairs[slots, 0] == self._pairs[slots, 1]
        gains: npt.NDArray[np.float64] = _f(n) + np.where(same, of_one, of_two) + _f(total) - _f(total - n)
        return gains

    def _merge(self, slot: int, left: int, right: int, piece: str) -> None:
        new = self._ids.setdefault(piece, len(self.pieces))
        if new == len(self.pieces):
            self.pieces.append(piece)
            self._piece_counts = np.append(self._piece_counts, 0)
        for word in sorted(self._places[slot]):
            self._count(word, -1)
            self._words[word] = _merged(self._words[word], left, right, new)
            self._count(word, 1)

    def _count(self, word: int, sign: int) -> None:
        """Add a word to the counts, or remove it (sign −1)."""
        pieces, times = self._words[word], sign * self._counts[word]
        for piece in pieces:
            self._piece_counts[piece] += times
        for pair in pairwise(pieces):
            slot = self._slots.get(pair)
            if slot is None:
                slot = self._new_slot(pair)
            self._pair_counts[slot] += times
            self._places[slot].add(word)

    def _new_slot(self, pair: tuple[int, int]) -> int:
        slot = self._slots[pair] = len(self._slots)
        self._places.append(set())
        if slot == len(self._pair_counts):
            self._pairs = np.concatenate([self._pairs, np.zeros_like(self._pairs)])
            self._pair_counts = np.concatenate([self._pair_counts, np.zeros_like(self._pair_counts)])
        self._pairs[slot] = pair
        return slot


def _f(n: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """n·log n, and 0 where n is 0 (or less, where overlapping neighbours were counted twice)."""
    positive = np.maximum(n, 1)
    values: npt.NDArray[np.float64] = positive * np.log(positive)
    return values


def _merged(pieces: list[int], left: int, right: int, new: int) -> list[int]:
    """pieces with every pair (left, right), from the first on, replaced by new."""
    result: list[int] = []
    for piece in pieces:
        if result and result[-1] == left and piece == right:
            result[-1] = new
        else:
            result.append(piece)
    return result
