"""A hash decides which texts are held out: the same on every machine, independent of all other texts."""

from __future__ import annotations

import hashlib


def unit_hash(text: str) -> float:
    """A number in [0, 1) that depends only on the text."""
    words = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return (int.from_bytes(words, "big") >> 11) / 2**53  # 53 bits: what a float64 holds exactly
