"""Sums and parts of an arena that are the same to the bit, whoever computes them: of fixed blocks, in a fixed tree.

Addition of floating-point numbers is not associative, so a sum depends on its order. Here the order depends on places
alone: numbers are added in blocks of BLOCK, and what blocks, slots or ranks contribute in a binary tree over their
numbers,

    ((x₀ + x₁) + (x₂ + x₃)) + ((x₄ + x₅) + (x₆ + x₇))

so that whoever has x₄ … x₇ can add them before the rest is there. What does not exist is left out: 0 is not added.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise, zip_longest
from typing import TypeVar

from npformer.backend import Arena
from npformer.functional.arrays import namespace
from npformer.typing import Array

BLOCK = 4096
Addend = TypeVar("Addend")


def add_by_tree(leaves: Sequence[Addend | None], add: Callable[[Addend, Addend], Addend]) -> Addend | None:
    """The leaves, added in the binary tree over their places. None: not there; the result, if none is."""
    while len(leaves) > 1:
        pairs = zip_longest(leaves[::2], leaves[1::2])
        leaves = [a if b is None else b if a is None else add(a, b) for a, b in pairs]
    return leaves[0] if leaves else None


def tree_sum(x: Array) -> Array:
    """The sum () of x (n,), n > 0, in the same tree; a place without a partner is handed up."""
    xp = namespace(x)
    while x.shape[0] > 1:
        even = x.shape[0] // 2 * 2
        added = x[:even:2] + x[1:even:2]
        x = added if even == x.shape[0] else xp.concat([added, x[even:]])
    return x[0]


def parts_of(size: int, count: int) -> list[slice]:
    """size numbers in count slices of whole blocks, as even as blocks allow; some may be empty."""
    blocks = -(-size // BLOCK)
    edges = [min(size, BLOCK * (blocks * i // count)) for i in range(count + 1)]
    return [slice(start, stop) for start, stop in pairwise(edges)]


def overlap(one: slice, other: slice) -> slice:
    """What both have; empty if nothing."""
    start = max(one.start, other.start)
    return slice(start, max(start, min(one.stop, other.stop)))


def block_squares(arena: Arena, part: slice) -> Array:
    """Σ g² of the trainable gradients of each block in a part of the arena that begins with a block."""
    gradients = arena.grads[part]
    squares, xp = gradients * gradients, namespace(gradients)
    for segment in arena.segments:
        if not segment.trainable:
            frozen = overlap(slice(segment.start, segment.stop), part)
            squares[frozen.start - part.start : frozen.stop - part.start] = 0
    whole = squares.shape[0] // BLOCK * BLOCK
    sums = xp.sum(xp.reshape(squares[:whole], (-1, BLOCK)), axis=1)
    return sums if whole == squares.shape[0] else xp.concat([sums, xp.sum(squares[whole:], keepdims=True)])
