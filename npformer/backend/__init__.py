"""Where arrays live and which kernels compute: the table of operations, devices, and the arena."""

from npformer.backend.arena import Arena, Run, Segment
from npformer.backend.backend import Backend, Device
from npformer.backend.cupy import cupy_problem
from npformer.backend.ops import PLAIN, Ops, Pair, plain_pair, with_bits
from npformer.backend.select import get_backend

__all__ = [
    "PLAIN",
    "Arena",
    "Backend",
    "Device",
    "Ops",
    "Pair",
    "Run",
    "Segment",
    "cupy_problem",
    "get_backend",
    "plain_pair",
    "with_bits",
]
