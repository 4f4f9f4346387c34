"""Philox4x64-10: random bits as a pure function of a key and a counter.

Ten rounds scramble a counter of four 64-bit words under a key of two. With (hi, lo) the two
halves of a 128-bit product, one round is

    (hi₀, lo₀) = M₀·c₀      (hi₁, lo₁) = M₁·c₂
    c ← (hi₁ ⊕ c₁ ⊕ k₀,  lo₁,  hi₀ ⊕ c₃ ⊕ k₁,  lo₀)

and between rounds the key advances, k₀ += W₀, k₁ += W₁ (all modulo 2⁶⁴). There is no state
between calls: a mask drawn again in backward, on another device, or after a restart is the same.

npformer's numbering: key = (seed, site), counter = (block, step, micro, 0). A block is four words,
16 lanes of 16 bits; number e of an array, in row-major order, uses lane e % 16 of block e // 16,
the lowest bits of a word first. If an array holds only some rows of a batch, e counts in the
whole batch, so its bits do not depend on how the batch was split. NumPy's Philox gives the
same words, except that it increments its counter before the first block.

Source: Salmon, Moraes, Dror & Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from npformer.functional.arrays import device_of, namespace
from npformer.typing import Array

MULTIPLIER_0, MULTIPLIER_1 = 0xD2E7470EE14C6C93, 0xCA5A826395121157
WEYL_0, WEYL_1 = 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B
WORD = 2**64 - 1  # all bits of a word: & WORD is modulo 2⁶⁴
HALF = 2**32 - 1
ROUNDS = 10


class Draw(NamedTuple):
    """Which random numbers to draw: everything that a dropout mask depends on, except its size."""

    seed: int  # of the run, 0 ≤ seed < 2⁶⁴
    step: int | Array  # of training; may live in device memory (a 0-d uint64 array)
    micro: int | Array  # micro-batch within the step; likewise
    site: int  # hash of the call's path in the model, 0 ≤ site < 2⁶⁴
    rate: float  # probability that an entry is dropped, 0 ≤ rate < 1
    first_row: int = 0  # index, in the whole batch, of the array's first row


#: (draw, size, like) -> (size,) uint16 on the device of ``like``, the array to be dropped, batch first:
#: philox_bits, or a backend's faster version.
Bits: TypeAlias = Callable[[Draw, int, Array], Array]


def philox_bits(draw: Draw, size: int, like: Array) -> Array:
    """The ``size`` random 16-bit numbers of a draw for ``like`` (B, …), (size,) uint16, on its device."""
    start = first_number(draw, size, like)
    numbers = philox_numbers(draw, start // 16, (start + size + 15) // 16, like)
    return numbers[start % 16 : start % 16 + size]


def philox_numbers(draw: Draw, first: int, end: int, like: Array) -> Array:
    """All numbers of the blocks from first to before end, (16·blocks,) uint16, on the device of ``like``."""
    xp = namespace(like)
    blocks = xp.arange(first, end, dtype=xp.uint64, device=device_of(like))
    zeros = xp.zeros_like(blocks)
    words = philox_block((blocks, zeros + draw.step, zeros + draw.micro, zeros), (draw.seed, draw.site))
    lanes = [(word >> (16 * i)) & 0xFFFF for word in words for i in range(4)]  # lowest lane of a word first
    return xp.astype(xp.reshape(xp.stack(lanes, axis=-1), (-1,)), xp.uint16)


def signed(word: Any) -> int:
    """The signed number with the same 64 bits, as compiled kernels take a word."""
    number = int(word)
    return number - 2**64 if number >= 2**63 else number


def first_number(draw: Draw, size: int, like: Array) -> int:
    """The index, in the whole batch's array, of the first number of ``like`` (B, …), which has ``size`` numbers."""
    return draw.first_row * (size // max(1, like.shape[0])) if draw.first_row else 0


def philox_block(counter: tuple[Array, Array, Array, Array], key: tuple[int, int]) -> tuple[Array, ...]:
    """The four random words (uint64 arrays of one shape) for counter and key."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(ROUNDS):
        high_0, low_0 = _product(c0, MULTIPLIER_0)
        high_1, low_1 = _product(c2, MULTIPLIER_1)
        c0, c1, c2, c3 = high_1 ^ c1 ^ k0, low_1, high_0 ^ c3 ^ k1, low_0
        k0, k1 = (k0 + WEYL_0) & WORD, (k1 + WEYL_1) & WORD
    return c0, c1, c2, c3


def _product(a: Array, b: int) -> tuple[Array, Array]:
    """The high and the low word of a·b, from 32-bit halves, since no array holds 128-bit numbers."""
    a_high, a_low = a >> 32, a & HALF
    b_high, b_low = b >> 32, b & HALF
    low_low = a_low * b_low
    middle = a_high * b_low + (low_low >> 32)  # < 2⁶⁴: (2³²−1)² + 2³² − 1
    carry = a_low * b_high + (middle & HALF)
    return a_high * b_high + (middle >> 32) + (carry >> 32), a * b
