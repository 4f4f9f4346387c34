"""The table of NumPy's own kernels: fast ones for nearly every operation that a layer calls.

``relu`` and ``softmax`` stay plain: no layer calls them, since feed_forward and attention contain them. So does what
spends its time in products, which the plain pair makes as fast.
"""

from __future__ import annotations

from npformer.backend.numpy.adam import adam_update
from npformer.backend.ops import PLAIN, with_kernels

__all__ = ["KERNELS", "adam_update"]

KERNELS = with_kernels(PLAIN, "npformer.backend.numpy")
