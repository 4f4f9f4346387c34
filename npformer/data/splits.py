"""A hash decides which texts are held out: the same on every machine, independent of all other texts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from npformer.data.batches import Example
from npformer.errors import ConfigError

HELD_OUT = 0.1  # the usual share of examples


def unit_hash(text: str) -> float:
    """A number in [0, 1) that depends only on the text."""
    words = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return (int.from_bytes(words, "big") >> 11) / 2**53  # 53 bits: what a float64 holds exactly


def expect_fraction(held_out_fraction: float) -> float:
    """Return the share to hold out, or raise ConfigError unless it is between 0 and 1."""
    if not 0 < held_out_fraction < 1:
        raise ConfigError(f"held_out_fraction: expected more than 0 and less than 1, got {held_out_fraction}")
    return held_out_fraction


def divided(examples: Iterable[tuple[Example, str]], fraction: float = HELD_OUT) -> tuple[list[Example], list[Example]]:
    """Training examples in their order, and distinct held-out ones by hash, given the text that decides for each."""
    train = []
    held_out: dict[Example, float] = {}
    for example, text in examples:
        place = unit_hash(text)
        if place < fraction:
            held_out[example] = place
        else:
            train.append(example)
    return train, sorted(held_out, key=held_out.__getitem__)


def chosen_by_hash(lengths: Mapping[str, int], room: float) -> set[str]:
    """The names to hold out, given their texts' lengths: by hash, each that the room still holds."""
    chosen = set()
    for name in sorted(lengths, key=unit_hash):
        if lengths[name] <= room:
            chosen.add(name)
            room -= lengths[name]
    return chosen
