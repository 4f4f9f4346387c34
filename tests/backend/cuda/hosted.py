"""Kernels on a GPU with host arrays as inputs and outputs, so that the tests of host tables run on a GPU."""

import ctypes
import dataclasses

import numpy as np

from npformer.backend import Ops, Pair
from npformer.functional import AttentionMask


def hosted(ops, upload, host):
    """ops behind copies to the GPU (upload(x), with the gaps of x) and back."""

    def there(x):
        if isinstance(x, AttentionMask) and x.key_visible is not None:
            return dataclasses.replace(x, key_visible=upload(x.key_visible))
        if type(x) is tuple:
            return tuple(map(there, x))
        return upload(x) if isinstance(x, np.ndarray) else x

    def back(x):
        return tuple(map(back, x)) if isinstance(x, tuple) else None if x is None else host(x)

    def hosted_pair(pair):
        def forward(*inputs, **options):
            y, cache = pair.forward(*map(there, inputs), **{name: there(x) for name, x in options.items()})
            return back(y), cache

        def backward(dy, cache, into=()):
            places = [there(total) for total in into]
            found = pair.backward(there(dy), cache, into=places)
            for total, place in zip(into, places, strict=True):
                if total is not None:
                    total[...] = host(place)
            return back(found)

        return Pair(forward, backward)

    return Ops(**{field.name: hosted_pair(getattr(ops, field.name)) for field in dataclasses.fields(Ops)})


def bytes_between(x):
    """A copy of all bytes that x (not empty) stretches over, and where among them its first number begins."""
    low, high = np.lib.array_utils.byte_bounds(x)
    return np.frombuffer((ctypes.c_char * (high - low)).from_address(low), np.uint8).copy(), x.ctypes.data - low


def upload_to_numpy(x):
    """An array like x in memory of its own: what a GPU of the host is given."""
    if x.size == 0:
        return x.copy()
    raw, start = bytes_between(x)
    return np.ndarray(x.shape, x.dtype, buffer=raw, offset=start, strides=x.strides)


def upload_to_cupy(x):
    """The same on CuPy's current device."""
    import cupy

    if x.size == 0:
        return cupy.zeros(x.shape, x.dtype)
    raw, start = bytes_between(x)
    on_device = cupy.asarray(raw)
    return cupy.ndarray(x.shape, x.dtype, memptr=on_device.data + start, strides=x.strides)
