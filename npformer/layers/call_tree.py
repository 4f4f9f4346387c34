"""The nodes passed down the call tree with the arrays: random keys, as in JAX, and attention recorders.

A parent passes ``child(key, "name")`` to each part. So a key or a recorder belongs to a path in the call tree
and not to a layer object: one layer used in two places draws two masks, and a
forward that runs again in the same place draws the same mask.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, TypeVar

from npformer.errors import ConfigError
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


Node = TypeVar("Node", RandomKey, AttentionRecorder)


def child(node: Node | None, name: str) -> Node | None:
    """node.child(name), or None without a node. No key means inference, no recorder that nothing is recorded."""
    return None if node is None else node.child(name)


def draw(key: RandomKey | None, name: str, rate: float) -> Draw | None:
    """The draw of the dropout called name, or None if nothing is dropped."""
    return None if key is None or rate == 0 else key.child(name).draw(rate)


def key_for(part: Any, key: RandomKey | None, name: str) -> dict[str, RandomKey | None]:
    """The option ``key`` for the forward of the part called name, if its class's forward takes one."""
    return {"key": child(key, name)} if _takes_key(type(part).forward) else {}


@lru_cache(maxsize=1024)
def _takes_key(forward: Callable[..., Any]) -> bool:
    parameters = inspect.signature(forward).parameters
    return "key" in parameters or any(each.kind is each.VAR_KEYWORD for each in parameters.values())
