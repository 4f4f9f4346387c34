"""Kernels for NVIDIA GPUs (.cu) and what calls them, for any GPU that offers ``DeviceRuntime``."""

from __future__ import annotations

from npformer.backend.cuda.device_runtime import PRECISIONS, DeviceRuntime
from npformer.backend.ops import PLAIN, Ops, with_kernels

__all__ = ["PRECISIONS", "DeviceRuntime", "cuda_ops"]


def cuda_ops(gpu: DeviceRuntime) -> Ops:
    """The table of operations on a GPU; what has no kernel stays plain."""
    return with_kernels(PLAIN, __name__, gpu)
