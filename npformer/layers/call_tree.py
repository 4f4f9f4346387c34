"""What is handed down the call tree beside the numbers: keys for randomness, and watches.

A parent gives ``child(key, "name")`` to each part, so a key, like a watched name, stands for a
place in the call tree and not for an object: one layer used at two places draws two masks, and a
forward run again at the same place draws the same one.
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
    """A 64-bit hash of a path: of the parent's hash and the last name."""
    digest = hashlib.blake2b(name.encode(), digest_size=8, key=parent.to_bytes(8, "little"))
    return int.from_bytes(digest.digest(), "little")


@dataclass(frozen=True)
class RandomKey:
    """Where dropout's random numbers come from: a pure function of seed, step, micro-batch and place.

    step and micro may be 0-d uint64 arrays in device memory. first_row is not 0 where only the rows
    from there on of a batch are given: they get the bits that they have in the whole batch.
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
        """The random numbers of this place, for dropout at this rate."""
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
        """Keep the weights (B, H, T, S) of this place."""
        self.weights[self.path] = weights


Node = TypeVar("Node", RandomKey, AttentionRecorder)


def child(node: Node | None, name: str) -> Node | None:
    """node.child(name), or None if there is no node: no key means inference, no recorder means that nobody looks."""
    return None if node is None else node.child(name)


def draw(key: RandomKey | None, name: str, rate: float) -> Draw | None:
    """What the dropout called name draws; None: nothing is dropped."""
    return None if key is None or rate == 0 else key.child(name).draw(rate)


def key_for(part: Any, key: RandomKey | None, name: str) -> dict[str, RandomKey | None]:
    """The option ``key`` for the forward of the part called name, if its class's forward takes one."""
    return {"key": child(key, name)} if _takes_key(type(part).forward) else {}


@lru_cache(maxsize=1024)
def _takes_key(forward: Callable[..., Any]) -> bool:
    parameters = inspect.signature(forward).parameters
    return "key" in parameters or any(each.kind is each.VAR_KEYWORD for each in parameters.values())
