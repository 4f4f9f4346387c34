"""Where arrays live and which bodies compute: the table of operations, devices, and the arena."""

from .arena import Arena, Run, Segment
from .backend import Backend, get_backend
from .cupy import cupy_problem
from .device import Device
from .ops import PLAIN, Ops, Pair, plain_pair, with_bits

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
