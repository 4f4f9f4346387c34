"""What is passed down the call tree beside the arrays: masks, a random key, as in JAX, and an attention recorder.

All of them travel as one ``Context``. A parent passes ``context.child("name")`` to each part. So a key or a recorder
belongs to a path in the call tree and not to a layer object: one layer used in two places draws two masks, and a
forward that runs again in the same place draws the same mask.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from functools import lru_cache

from npformer.errors import ConfigError
from npformer.functional import ALL_VISIBLE, AttentionMask
from npformer.functional.philox import WORD, Draw
from npformer.typing import Array


@lru_cache(maxsize=65536)
def _site(parent: int, name: str) -> int:
    """A 64-bit hash of a path, from the parent's hash and the last name."""
    digest = hashlib.blake2b(name.encode(), digest_size=8, key=parent.to_bytes(8, "little"))
    return int.from_bytes(digest.digest(), "little")


@dataclass(frozen=True)
class RandomKey:
    """The key of dropout's random numbers, a pure function of seed, step, micro-batch and path in the call tree.

    step and micro may be 0-d uint64 arrays in device memory. For a shard of a batch, first_row is the index of
    its first row: its rows then get the same bits as in the whole batch.
    Raises ConfigError unless 0 ≤ seed < 2⁶⁴.
    """

    seed: int = 0
    step: int | Array = 0
    micro: int | Array = 0
    site: int = 0
    first_row: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.seed <= WORD:
            raise ConfigError(f"seed: expected an integer with 0 <= seed < 2**64, got {self.seed}")

    def child(self, name: str) -> RandomKey:
        """The key of the part called name."""
        return RandomKey(self.seed, self.step, self.micro, _site(self.site, name), self.first_row)

    def draw(self, rate: float) -> Draw:
        """The draw at this path, for dropout at this rate."""
        return Draw(self.seed, self.step, self.micro, self.site, rate, self.first_row)


@dataclass(frozen=True)
class AttentionRecorder:
    """Collects attention weights by the dotted name of the attention that computed them."""

    weights: dict[str, Array] = field(default_factory=dict)
    path: str = ""

    def child(self, name: str) -> AttentionRecorder:
        """The recorder of the part called name."""
        return replace(self, path=f"{self.path}.{name}" if self.path else name)

    def record(self, weights: Array) -> None:
        """Record the weights (B, H, T, S) under this path."""
        self.weights[self.path] = weights


@dataclass(frozen=True)
class Context:
    """What a forward hands to its parts. A part that needs none of it, such as LayerNorm, takes it all the same."""

    mask: AttentionMask = ALL_VISIBLE  # which keys a token may look at
    memory_mask: AttentionMask = ALL_VISIBLE  # which tokens of a memory
    key: RandomKey | None = None  # None: inference, nothing is dropped
    recorder: AttentionRecorder | None = None  # None: nothing is recorded

    def child(
        self, name: str, *, mask: AttentionMask | None = None, memory_mask: AttentionMask | None = None
    ) -> Context:
        """The context of the part called name, with other masks if they are given."""
        return Context(
            self.mask if mask is None else mask,
            self.memory_mask if memory_mask is None else memory_mask,
            None if self.key is None else self.key.child(name),
            None if self.recorder is None else self.recorder.child(name),
        )

    def draw(self, name: str, rate: float) -> Draw | None:
        """The draw of the dropout called name, or None if nothing is dropped."""
        return None if self.key is None or rate == 0 else self.key.child(name).draw(rate)


#: No mask, no dropout, no recorder.
INFERENCE = Context()
