"""NumPy: arrays on the host, and two tables of kernels: plain and numpy."""

from __future__ import annotations

from npformer.backend.backend import Backend, NumpyDevice
from npformer.backend.fallback import with_fallback, with_one_precision
from npformer.backend.numpy.philox import philox_bits
from npformer.backend.ops import PLAIN, Ops, with_bits

#: Kernels "plain": exactly the code of ``functional``, so checking them checks every line of it.
TEXT = with_one_precision(PLAIN)

#: The same, with random bits from NumPy's Philox.
OPS: Ops = with_bits(PLAIN, philox_bits)

#: The fallback of the fast kernels, mostly for complex numbers: a gradient check calls it thousands of times.
CAREFUL = with_one_precision(OPS)


def numpy_backend(dtype: str, kernels: str) -> Backend:
    """The NumPy backend in dtype, with kernels "plain" or "numpy"."""
    ops = TEXT
    if kernels == "numpy":
        from npformer.backend.numpy.kernels import KERNELS

        ops = with_fallback(KERNELS, CAREFUL)
    return Backend("numpy", ops, NumpyDevice(), dtype, kernels=kernels, own_ops=ops)
