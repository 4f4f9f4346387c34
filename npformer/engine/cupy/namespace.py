"""CuPy's array-API functions, as far as plain pairs call some that CuPy refuses while a stream is recorded.

CuPy's matrix product calls cuBLAS with CuPy's own handle, which it refuses during a capture. In the pairs of a backend
with CUDA kernels (``with_products``) it is the backend's own product, of the backend's precision, recorded or not. To
put more than eight arrays side by side, CuPy copies their addresses from the host; here each is copied by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import wraps
from typing import Any

import numpy as np

from npformer.backend.ops import Ops, Pair
from npformer.engine.cuda.device_runtime import DeviceRuntime
from npformer.functional.arrays import device_of, namespace, use_namespace
from npformer.typing import Array

ADD_BIAS = ("post_norm", "add_norm")  # operations that look themselves whether a linear map waits for them
LISTED = 8  # arrays from which on CuPy makes a list
_gpu: ContextVar[DeviceRuntime | None] = ContextVar("gpu", default=None)  # whose product is to be taken


class Recordable:
    """The functions of an array-API module, with products and sequences of arrays that can be recorded."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        setattr(self, name, found)  # the next look-up is quick
        return found

    def matmul(self, a: Array, b: Array) -> Array:
        """a (…, M, K) b (…, K, N)."""
        gpu = _gpu.get()
        if gpu is None or a.dtype != b.dtype or a.dtype.char not in "fd" or min(a.ndim, b.ndim) < 2:
            return self._module.matmul(a, b)
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        return gpu.product(a, b, gpu.empty((*batch, a.shape[-2], b.shape[-1]), a.dtype))

    def concat(self, arrays: Sequence[Array], *, axis: int = 0) -> Array:
        """The arrays side by side along an axis."""
        first = arrays[0]
        if len(arrays) <= LISTED:
            return self._module.concat(arrays, axis=axis)
        axis %= first.ndim
        shape = (*first.shape[:axis], sum(x.shape[axis] for x in arrays), *first.shape[axis + 1 :])
        out, start = self._module.empty(shape, dtype=first.dtype, device=device_of(first)), 0
        for x in arrays:
            end = start + x.shape[axis]
            out[(*[slice(None)] * axis, slice(start, end), ...)] = x
            start = end
        return out

    def stack(self, arrays: Sequence[Array], *, axis: int = 0) -> Array:
        """The arrays side by side along a new axis."""
        return self.concat([self._module.expand_dims(x, axis=axis) for x in arrays], axis=axis)


def with_products(ops: Ops, gpu: DeviceRuntime, like: Array) -> Ops:
    """The table ops, in whose pairs products of arrays of the type of like are those of gpu."""
    if not isinstance(namespace(like), Recordable):
        use_namespace(type(like), Recordable(namespace(like)))

    def by_gpu(function: Callable[..., Any], adds_bias: bool = False) -> Callable[..., Any]:
        @wraps(function)
        def called(*inputs: Any, **options: Any) -> Any:
            if gpu.later is not None and not adds_bias:
                gpu.later.settle()
            before = _gpu.set(gpu)
            try:
                return function(*inputs, **options)
            finally:
                _gpu.reset(before)

        return called

    pairs = vars(ops).items()
    return Ops(**{op: Pair(by_gpu(forward, op in ADD_BIAS), by_gpu(backward)) for op, (forward, backward) in pairs})
