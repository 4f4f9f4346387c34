"""A text file of your own as a task for a language model: predict the next character, or the next word.

The file is any UTF-8 text. Line ends of Windows (\\r\\n) become line feeds; nothing else is changed.

The text is cut into passages, and some are held out: in the order of a hash of their words, until they make up
held_out_fraction of the text. So every part of the text is represented, and equal passages are on one side: no
passage that is evaluated was trained on, nor does a training window overlap one. Passages are paragraphs, with a
blank line after them. If these are too few or too long, they are lines, and if lines are too, runs of characters.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Literal

from npformer.data.spelled_words import SpelledWords
from npformer.data.splits import chosen_by_hash, expect_fraction
from npformer.data.text_task import TextTask
from npformer.data.textfile import read_text
from npformer.data.tokenizer import Characters, Tokenizer
from npformer.errors import DataError

TOKENIZERS: dict[str, type[Tokenizer]] = {"characters": Characters, "words": SpelledWords}

_RUN = 1_000  # characters of a passage of a text without paragraphs and lines
_BLANK_LINES, _LINE_END = re.compile(r"\n(?:[^\S\n]*\n)+"), re.compile(r"\n")


def text_from_file(
    path: str | os.PathLike[str],
    *,
    seed: int = 0,
    held_out_fraction: float = 0.1,
    tokenizer: Literal["characters", "words"] = "characters",
    max_pieces: int = 4_000,
    max_length: int = 128,
) -> TextTask:
    """The task of continuing the text of a file.

    Raises DataError for a file that is missing, no UTF-8 text or too short, ConfigError for options out of range.
    """
    text, digest = read_text(path)
    sides = split_text(text, held_out_fraction)
    if sides is None:
        raise DataError(
            f"{path}: expected a text of which a share of {held_out_fraction:g} can be held out, got one of "
            f"length {len(text)} that does not divide so; add text, or change held_out_fraction"
        )
    return continuing(Path(path).name, *sides, seed=seed, digest=digest, tokenizer=tokenizer, max_pieces=max_pieces,
                      max_length=max_length)  # fmt: skip


def continuing(
    name: str,
    train: str,
    held_out: str,
    *,
    seed: int,
    digest: str,
    tokenizer: Literal["characters", "words"],
    max_pieces: int,
    max_length: int,
) -> TextTask:
    """The task of continuing a text whose two sides are given.

    Words are learnt from the training side. The vocabulary has every character of both sides, so that every
    character counts in the loss. Raises ConfigError for options out of range.
    """
    if tokenizer == "characters":
        learnt: Tokenizer = Characters.learn([train, held_out])
    else:
        learnt = SpelledWords.learn(train, max_pieces, alphabet=held_out)
    return TextTask(name, "causal", learnt, train, held_out, seed=seed, digest=digest, max_length=max_length)


def split_text(text: str, fraction: float) -> tuple[str, str] | None:
    """The training side and the held-out side, of about that share of the text; None if it cannot be had.

    Raises ConfigError unless 0 < fraction < 1.
    """
    room = expect_fraction(fraction) * len(text)
    for passages in _cuts(text, max(1, min(_RUN, int(room / 4)))):
        keys = [" ".join(passage.split()) for passage in passages]
        lengths: Counter[str] = Counter()
        for key, passage in zip(keys, passages, strict=True):
            lengths[key] += len(passage)
        del lengths[""]  # white space alone is never held out
        chosen = chosen_by_hash(lengths, room)
        pairs = list(zip(keys, passages, strict=True))
        train = "".join(passage for key, passage in pairs if key not in chosen)
        held_out = "".join(passage for key, passage in pairs if key in chosen)
        if train.strip() and 2 * len(held_out) >= room:
            return train, held_out
    return None


def _cuts(text: str, run: int) -> Iterator[list[str]]:
    """The text as paragraphs, as lines, and as runs of characters that end with a word where they can."""
    for end in (_BLANK_LINES, _LINE_END):
        stops = [0, *(match.end() for match in end.finditer(text)), len(text)]
        yield [text[start:stop] for start, stop in pairwise(stops) if start < stop]
    yield re.findall(rf".{{{run}}}\S{{0,40}}|.+", text, re.DOTALL)
