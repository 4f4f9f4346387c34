"""Roundings of kernels in low precision, on NumPy's arrays."""

import numpy as np


def float32(x):
    """x as float32."""
    return np.asarray(x).astype(np.float32)


def float16(x):
    """x as float16."""
    return np.asarray(x).astype(np.float16)


def bfloat16(x):
    """x rounded to 8 bits of mantissa, to even, kept as float32. NaN and infinity stay as they are."""
    return _cut(x, 16)


def tf32(x):
    """x rounded to 11 bits of mantissa, to even, kept as float32: the operands of a product in TF32."""
    return _cut(x, 13)


def tf32_product(a, b):
    """a @ b with operands in TF32 and float32 sums."""
    return tf32(a) @ tf32(b)


def stored(x, precision):
    """x rounded to what the precision stores: float16 arrays for float16, float32 arrays otherwise."""
    return {"float16": float16, "bfloat16": bfloat16}.get(precision, float32)(x)


def _cut(x, dropped):
    """x without its last bits."""
    x = np.asarray(x, dtype=np.float32)
    bits, unit = x.view(np.uint32), 1 << dropped
    half = np.uint32(unit // 2 - 1) + ((bits >> np.uint32(dropped)) & np.uint32(1))
    return np.where(np.isfinite(x), ((bits + half) & np.uint32(2**32 - unit)).view(np.float32), x)
