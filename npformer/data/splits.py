"""A hash decides which texts are held out: the same on every machine, independent of all other texts."""

from __future__ import annotations

import hashlib

from npformer.errors import ConfigError


def unit_hash(text: str) -> float:
    """A number in [0, 1) that depends only on the text."""
    words = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return (int.from_bytes(words, "big") >> 11) / 2**53  # 53 bits: what a float64 holds exactly


def expect_fraction(held_out_fraction: float) -> float:
    """Return the share to hold out, or raise ConfigError unless it is between 0 and 1."""
    if not 0 < held_out_fraction < 1:
        raise ConfigError(f"held_out_fraction: expected more than 0 and less than 1, got {held_out_fraction}")
    return held_out_fraction
