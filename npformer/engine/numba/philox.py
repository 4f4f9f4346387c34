"""Dropout bits by compiled Philox4x64-10: the numbers of ``functional/philox.py``, about twice as fast as NumPy's.

A product of two 64-bit numbers with both halves of the result is one instruction. Python and NumPy cannot express it,
so it is written in LLVM's language.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from npformer.engine.numba.compiling import inlined
from npformer.engine.numba.recording import number
from npformer.functional.dropout import dropout_threshold
from npformer.functional.philox import MULTIPLIER_0, MULTIPLIER_1, ROUNDS, WEYL_0, WEYL_1, Draw, first_number, signed
from npformer.typing import Array

M0, M1 = np.uint64(MULTIPLIER_0), np.uint64(MULTIPLIER_1)
W0, W1 = np.uint64(WEYL_0), np.uint64(WEYL_1)
LANES, WORDS = 16, 4  # of a block


@intrinsic
def _product(typing_context: Any, a: Any, b: Any) -> Any:
    """The high and the low 64 bits of a·b."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(*(builder.zext(x, wide) for x in arguments))
        low = builder.trunc(product, ir.IntType(64))
        high = builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))
        return context.make_tuple(builder, signature.return_type, (high, low))

    return types.UniTuple(types.uint64, 2)(types.uint64, types.uint64), generate


class Numbers(NamedTuple):
    """A draw as kernels read it: five integers, and the scale of kept numbers."""

    seed: int
    site: int
    step: int
    micro: int
    start: int  # which number of the draw belongs to the array's first element
    threshold: int  # numbers below it drop; 0: nothing is dropped
    scale: float


NOTHING_DROPPED = Numbers(0, 0, 0, 0, 0, 0, 1.0)


def numbers(draw: Draw | None, like: Array) -> Numbers:
    """The draw for ``like`` (B, …) as kernels read it. Raises ConfigError for a rate outside [0, 1)."""
    if draw is None:
        return NOTHING_DROPPED
    threshold, scale = dropout_threshold(draw.rate)
    seed, site, step, micro = (number(word, signed) for word in (draw.seed, draw.site, draw.step, draw.micro))
    return Numbers(seed, site, step, micro, int(first_number(draw, like.size, like)), threshold, scale)


@inlined
def draw_lanes(out, drawn, first, size):
    """Write numbers start … start + size − 1 of a draw to out, from lane start % 16 on; returns that lane.

    start is that of the array's number ``first``.

    out (uint64, read as uint16 lanes; little-endian) needs room for size + 30 lanes: whole blocks are written.
    """
    start = drawn.start + first
    block = np.uint64(start // LANES)
    skipped = start % LANES
    for base in range(0, (skipped + size + LANES - 1) // LANES * WORDS, WORDS):
        c0, c1, c2, c3 = block, np.uint64(drawn.step), np.uint64(drawn.micro), np.uint64(0)
        k0, k1 = np.uint64(drawn.seed), np.uint64(drawn.site)
        for _ in range(ROUNDS):
            high_0, low_0 = _product(c0, M0)
            high_1, low_1 = _product(c2, M1)
            c0, c1, c2, c3 = high_1 ^ c1 ^ k0, low_1, high_0 ^ c3 ^ k1, low_0
            k0, k1 = k0 + W0, k1 + W1
        out[base], out[base + 1], out[base + 2], out[base + 3] = c0, c1, c2, c3
        block += np.uint64(1)
    return skipped


@inlined
def room_for_lanes(size):
    """Uninitialised words for draw_lanes of up to size numbers."""
    return np.empty((size + 2 * LANES) // LANES * WORDS, dtype=np.uint64)
