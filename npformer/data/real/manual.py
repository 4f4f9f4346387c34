"""Python's own manual, as `help()` has it: English prose, grammar rules and examples, to model as a language.

    lm    characters; which comes next?          measured in bits per character
    mlm   WordPiece of 1,000 pieces; which was hidden?

The text comes with Python (pydoc_data.topics), and so differs between its versions: the digest tells. Topics
overlap, so what is held out is decided in two steps: whole topics by a hash of their names, as far as they are a
tenth of the text; then each paragraph is kept once, the held-out side first. No paragraph is on both sides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from npformer.data.real.user_cache import cached_lines, digest
from npformer.data.splits import unit_hash
from npformer.data.text_task import TextTask
from npformer.data.tokenizer import Characters, Tokenizer
from npformer.data.vocabulary import SPECIAL, Vocabulary
from npformer.data.wordpiece import WordPiece

_VERSION = 1
_HELD_OUT = 0.1
_PIECES = 1_000


def lm(*, seed: int = 0, max_length: int = 128) -> TextTask:
    """Which character comes next. Raises ConfigError for a max_length without sense.

    The vocabulary has every character of both sides: a character that could not be said would cost nothing.
    """
    train, held_out = manual()
    tokenizer: Tokenizer = Characters.learn([train, held_out])
    check = digest([train, held_out])
    return TextTask("lm", "causal", tokenizer, train, held_out, seed=seed, digest=check, max_length=max_length)


def mlm(*, seed: int = 0, max_length: int = 64) -> TextTask:
    """Which pieces of words were hidden. Raises ConfigError for a max_length without sense."""
    train, held_out = manual()
    check = digest([train, held_out])
    pieces = cached_lines(f"manual-pieces-{_VERSION}-{_PIECES}-{check[:16]}.txt", lambda: _learn(train))
    tokenizer = WordPiece(Vocabulary(tuple(pieces)))
    return TextTask("mlm", "masked", tokenizer, train, held_out, seed=seed, digest=check, max_length=max_length)


def manual(topics: Mapping[str, str] | None = None) -> tuple[str, str]:
    """The text to train on and the text held out, of topics by name (default: the manual's)."""
    if topics is None:
        from pydoc_data.topics import topics as topics_of_python  # half a megabyte, asked for here alone

        topics = topics_of_python
    chosen = _held_out_topics(topics)
    seen: set[str] = set()
    held_out = _new_paragraphs((topics[name] for name in sorted(chosen)), seen)
    train = _new_paragraphs((topics[name] for name in sorted(topics.keys() - chosen)), seen)
    return train, held_out


def _held_out_topics(topics: Mapping[str, str]) -> set[str]:
    room = _HELD_OUT * sum(map(len, topics.values()))
    chosen: set[str] = set()
    for name in sorted(topics, key=unit_hash):
        if len(topics[name]) <= room:
            chosen.add(name)
            room -= len(topics[name])
    return chosen


def _new_paragraphs(texts: Iterable[str], seen: set[str]) -> str:
    """The paragraphs of texts that are not among the seen ones, which they join."""
    new: list[str] = []
    for text in texts:
        for paragraph in text.split("\n\n"):
            key = " ".join(paragraph.split())
            if key and key not in seen:
                seen.add(key)
                new.append(paragraph.strip("\n"))
    return "\n\n".join(new) + "\n"


def _learn(text: str) -> Iterable[str]:
    return WordPiece.learn([text], _PIECES, special=SPECIAL).vocabulary.pieces
