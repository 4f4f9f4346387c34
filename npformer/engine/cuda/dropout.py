"""Dropout and x + Drop(f), each one kernel forward and one backward. Backward draws the same bits again."""

from __future__ import annotations

from npformer.engine.cuda.device_runtime import DeviceRuntime, Drawn, drawn, whole_blocks
from npformer.functional.arrays import expect_shape
from npformer.functional.philox import Draw
from npformer.typing import Array

#: Threads of a block, and its elements: each thread draws the bits of 16.
THREADS, STRETCH = 64, 1024


def _dropped(gpu: DeviceRuntime, x: Array | None, f: Array, drawn: Drawn) -> Array:
    """x + Drop(f), or Drop(f) alone."""
    y = gpu.empty(f.shape, f.dtype)
    if f.size:
        gpu.launch(
            "dropout.drop", f.dtype, whole_blocks(f.size, STRETCH), THREADS,
            None if x is None else gpu.contiguous(x), gpu.contiguous(f), y, f.size, STRETCH, *drawn,
        )  # fmt: skip
    return y


def dropout_forward(gpu: DeviceRuntime, x: Array, draw: Draw | None) -> tuple[Array, Drawn]:
    dropped = drawn(draw, x)
    return (_dropped(gpu, None, x, dropped) if dropped.threshold else x), dropped


def dropout_backward(gpu: DeviceRuntime, dy: Array, cache: Drawn) -> tuple[Array]:
    return (_dropped(gpu, None, dy, cache) if cache.threshold else dy,)


def residual_forward(gpu: DeviceRuntime, x: Array, f: Array, draw: Draw | None) -> tuple[Array, Drawn]:
    expect_shape("f", f, "the shape of x", *x.shape)
    dropped = drawn(draw, f)
    return _dropped(gpu, x, f, dropped), dropped


def residual_backward(gpu: DeviceRuntime, dy: Array, cache: Drawn) -> tuple[Array, Array]:
    return dy, *dropout_backward(gpu, dy, cache)
