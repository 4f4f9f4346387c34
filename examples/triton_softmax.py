"""A softmax in Triton whose backward is checked without a GPU, in Triton's interpreter.

    pip install -e '.[triton]'
    python examples/triton_softmax.py

The check launches the kernels as training would. On a machine with a GPU, leave out the first statement to run the
compiled kernels; the search for the line of a mistake needs the interpreter.
"""

from __future__ import annotations

import os

os.environ.setdefault("TRITON_INTERPRET", "1")  # before Triton is imported

from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl

import npformer as npf

Tensor = torch.Tensor


@triton.jit
def softmax_forward(x_ptr: Any, y_ptr: Any, n_cols: Any, BLOCK: tl.constexpr) -> None:
    """y (rows, n_cols) of x (rows, n_cols): a program for each row."""
    cols = tl.arange(0, BLOCK)
    at, mask = tl.program_id(0) * n_cols + cols, cols < n_cols
    x = tl.load(x_ptr + at, mask=mask, other=-float("inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + at, e / tl.sum(e, axis=0), mask=mask)


@triton.jit
def softmax_backward(dy_ptr: Any, y_ptr: Any, dx_ptr: Any, n_cols: Any, BLOCK: tl.constexpr) -> None:
    """dx = y (dy − Σ dy·y), a program for each row."""
    cols = tl.arange(0, BLOCK)
    at, mask = tl.program_id(0) * n_cols + cols, cols < n_cols
    dy = tl.load(dy_ptr + at, mask=mask, other=0.0).to(tl.float32)
    y = tl.load(y_ptr + at, mask=mask, other=0.0).to(tl.float32)
    inner = tl.sum(dy * y, axis=0)
    tl.store(dx_ptr + at, y * (dy - inner), mask=mask)


class Softmax(torch.autograd.Function):
    """Softmax over the last axis of x (rows, n_cols)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Launch the forward; save y."""
        x = x.contiguous()
        y, (rows, n_cols) = torch.empty_like(x), x.shape
        softmax_forward[(rows,)](x, y, n_cols, BLOCK=triton.next_power_of_2(n_cols))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Tensor:
        """Launch the backward."""
        (y,) = ctx.saved_tensors
        dx, (rows, n_cols) = torch.empty_like(y), y.shape
        softmax_backward[(rows,)](dy.contiguous(), y, dx, n_cols, BLOCK=triton.next_power_of_2(n_cols))
        return dx


def test_softmax() -> None:
    """What pytest runs in a repository of kernels; 5 columns in a block of 8, so that the mask counts."""
    npf.gradcheck(npf.from_torch(Softmax), np.random.default_rng(0).normal(size=(3, 5))).raise_if_failed()


if __name__ == "__main__":
    print(npf.gradcheck(npf.from_torch(Softmax), np.random.default_rng(0).normal(size=(3, 5))))
