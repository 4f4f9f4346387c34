"""The table of the NumPy kernels: a fast one for nearly every operation that a layer calls.

``relu``, ``gelu`` and ``softmax`` stay plain: no layer calls them, since feed_forward and attention contain them. The
Transformer's predecessors also stay plain: their time goes into matrix products, so a NumPy kernel would be no faster.
So does BatchNorm's inference, with which nothing is trained.
"""

from __future__ import annotations

from npformer.backend.ops import PLAIN, with_kernels

KERNELS = with_kernels(PLAIN, "npformer.backend.numpy")
