"""A kernel in low precision: what it computes, the reference that it stands for, and the verdict that it deserves."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from types import FunctionType
from typing import Any

import numpy as np

from benchmarks.foreign.pair import Edit, is_float

#: The unit roundoff of what a kernel stores, and of the operands of its products.
STORED = {"float32": 2.0**-24, "tf32": 2.0**-24, "bfloat16": 2.0**-8, "float16": 2.0**-11}

RIGHT = "right"  # rounding explains every difference: never WRONG
WRONG = "wrong"  # off by at least three roundings of an entry, of a sum over an axis, or of a named term: never right
BELOW = "below"  # wrong by less than its precision shows: the report says that it would not show


@dataclass(frozen=True)
class Kernel:
    """One kernel of the list.

    target: a pair (forward, backward), or what npf.from_torch returns; it takes and returns float32 arrays whose
    numbers its precision can represent (float16 arrays for float16). reference: a pair written in elementary operations
    of NumPy that runs in float64 and complex128. draw(rng): the inputs in float64, which ``inputs`` rounds.
    mistake: what is wrong, in a few words; "" for a right kernel. size: for BELOW, the mistake as a relative error.
    """

    verdict: str
    name: str
    precision: str
    target: Any
    reference: Any
    draw: Callable[[np.random.Generator], Any]
    mistake: str = ""
    size: float = 0.0
    accumulate: str = "float32"
    options: dict[str, Any] = field(default_factory=dict)

    def inputs(self, seed):
        """The inputs that this seed draws, as the kernel takes them."""
        drawn = self.draw(np.random.default_rng([seed, 11]))
        kept = drawn if isinstance(drawn, tuple) else (drawn,)
        return tuple(rounded(x, self.precision) if is_float(x) else x for x in kept)


#: right("softmax, blocked", "bfloat16", target, reference, draw): a kernel of this verdict.
right, wrong, below = (partial(Kernel, verdict) for verdict in (RIGHT, WRONG, BELOW))


def edited(backward, old, new):
    """The right backward with one mistake: ``old``, which its source has once, is ``new``."""
    mistaken = Edit("", old, new, frozenset()).apply(backward)
    return FunctionType(mistaken.__code__, backward.__globals__)


def rounded(x, precision):
    """x rounded to what the precision stores: float16 arrays for float16, float32 arrays otherwise."""
    if precision == "float16":
        return float16(x)
    return bfloat16(x) if precision == "bfloat16" else float32(x)


def float16(x):
    """x as float16."""
    return np.asarray(x).astype(np.float16)


def float32(x):
    """x as float32."""
    return np.asarray(x).astype(np.float32)


def bfloat16(x):
    """x rounded to 8 bits of mantissa, to even, kept as float32. NaN and infinity stay as they are."""
    x = np.asarray(x, dtype=np.float32)
    bits = x.view(np.uint32)
    even = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)
    return np.where(np.isfinite(x), even.astype(np.uint32).view(np.float32), x)


def tf32(x):
    """x rounded to 11 bits of mantissa, to even, kept as float32: the operands of a product in TF32."""
    x = np.asarray(x, dtype=np.float32)
    bits = x.view(np.uint32)
    even = (bits + np.uint32(0x0FFF) + ((bits >> np.uint32(13)) & np.uint32(1))) & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(x), even.astype(np.uint32).view(np.float32), x)


def tf32_product(a, b):
    """a @ b with operands in TF32 and float32 sums."""
    return tf32(a) @ tf32(b)
