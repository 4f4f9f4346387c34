"""Python's own manual, as in `help()`: English prose, grammar rules and examples, for language models.

    lm    characters; predict the next one       measured in bits per character
    mlm   WordPiece of 1,000 pieces; predict the hidden ones

The text is part of Python (pydoc_data.topics), so it differs between versions of Python; the digest shows this. Topics
overlap, so the split takes two steps: whole topics are held out by a hash of their names, up to a tenth of the text;
then each paragraph is kept once, first on the held-out side. No paragraph is on both sides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from npformer.data.own_text import continuing
from npformer.data.real.user_cache import cached_lines, digest
from npformer.data.splits import HELD_OUT, chosen_by_hash
from npformer.data.text_task import TextTask
from npformer.data.vocabulary import SPECIAL, Vocabulary
from npformer.data.wordpiece import WordPiece

_VERSION = 1
_PIECES = 1_000


def lm(
    *,
    seed: int = 0,
    max_length: int = 128,
    tokenizer: Literal["characters", "words"] = "characters",
    max_pieces: int = 4_000,
) -> TextTask:
    """The task of predicting the next character, or word. Raises ConfigError for options out of range."""
    train, held_out = manual()
    check = digest([train, held_out])
    return continuing("lm", train, held_out, seed=seed, digest=check, tokenizer=tokenizer, max_pieces=max_pieces,
                      max_length=max_length)  # fmt: skip


def mlm(*, seed: int = 0, max_length: int = 64) -> TextTask:
    """The task of predicting hidden pieces of words. Raises ConfigError for a max_length out of range."""
    train, held_out = manual()
    check = digest([train, held_out])

    def learn() -> Iterable[str]:
        return WordPiece.learn([train], _PIECES, special=SPECIAL).vocabulary.pieces

    pieces = cached_lines(f"manual-pieces-{_VERSION}-{_PIECES}-{check[:16]}.txt", learn)
    tokenizer = WordPiece(Vocabulary(tuple(pieces)))
    return TextTask("mlm", "masked", tokenizer, train, held_out, seed=seed, digest=check, max_length=max_length)


def manual(topics: Mapping[str, str] | None = None) -> tuple[str, str]:
    """The training text and the held-out text, from topics by name (default: the manual's)."""
    if topics is None:
        from pydoc_data.topics import topics as topics_of_python  # half a megabyte, imported only here

        topics = topics_of_python
    lengths = {name: len(text) for name, text in topics.items()}
    chosen = chosen_by_hash(lengths, HELD_OUT * sum(lengths.values()))
    seen: set[str] = set()
    held_out = _new_paragraphs((topics[name] for name in sorted(chosen)), seen)
    train = _new_paragraphs((topics[name] for name in sorted(topics.keys() - chosen)), seen)
    return train, held_out


def _new_paragraphs(texts: Iterable[str], seen: set[str]) -> str:
    """The paragraphs of texts that are not in seen; adds them to seen."""
    new = []
    for text in texts:
        for paragraph in text.split("\n\n"):
            key = " ".join(paragraph.split())
            if key and key not in seen:
                seen.add(key)
                new.append(paragraph.strip("\n"))
    return "\n\n".join(new) + "\n"
