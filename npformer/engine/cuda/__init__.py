"""CUDA kernels (.cu) for NVIDIA GPUs and the Python functions that launch them on any ``DeviceRuntime``."""

from __future__ import annotations

from npformer.backend.ops import PLAIN, Ops, with_kernels
from npformer.engine.cuda.device_runtime import DeviceRuntime

__all__ = ["DeviceRuntime", "cuda_ops"]


def cuda_ops(gpu: DeviceRuntime) -> Ops:
    """The table of operations on a GPU. An operation without a kernel stays plain."""
    return with_kernels(PLAIN, __name__, gpu)
