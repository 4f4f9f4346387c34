"""Where arrays live and which kernels compute: the table of operations, devices, and the arena.

To see how an operation is made fast, open the file of its name in ``numpy``, or in ``numba`` or ``cuda`` of
the engine. ``select`` chooses the folder of kernels, ``ops`` is the table that they enter, and ``fallback``
chooses between a kernel and the plain pair by the dtype of each call. ``cupy`` has the arrays of a GPU.
"""

from npformer.backend.arena import Arena, Segment, SegmentRun
from npformer.backend.backend import Backend, Device, NumpyDevice
from npformer.backend.cupy import cupy_problem
from npformer.backend.ops import PLAIN, Ops, Pair, plain_pair, with_bits
from npformer.backend.select import get_backend

__all__ = [
    "PLAIN",
    "Arena",
    "Backend",
    "Device",
    "NumpyDevice",
    "Ops",
    "Pair",
    "Segment",
    "SegmentRun",
    "cupy_problem",
    "get_backend",
    "plain_pair",
    "with_bits",
]
