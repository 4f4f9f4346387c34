"""LayerNorm in Triton, checked without a GPU. Delete `- x_hat * along_x_hat`, and the check names the line.

    pip install -e '.[triton]'
    python examples/triton_layer_norm.py

The kernels compute in float32, whatever their inputs, and keep the mean and 1/σ in float32. In a check all of this is
float64, so that a mistake shows and rounding does not.
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
def norm_forward(x_ptr: Any, w_ptr: Any, b_ptr: Any, y_ptr: Any, mean_ptr: Any, r_ptr: Any, N: Any,
                 BLOCK: tl.constexpr) -> None:  # fmt: skip
    """y (M, N) = x̂·w + b, with the mean (M,) and r = 1/σ (M,) of each row of x (M, N)."""
    row, cols = tl.program_id(0), tl.arange(0, BLOCK)
    mask = cols < N
    x = tl.load(x_ptr + row * N + cols, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / N
    centred = tl.where(mask, x - mean, 0.0)
    r = 1 / tl.sqrt(tl.sum(centred * centred, axis=0) / N + 1e-5)
    tl.store(mean_ptr + row, mean)
    tl.store(r_ptr + row, r)
    y = centred * r * tl.load(w_ptr + cols, mask=mask) + tl.load(b_ptr + cols, mask=mask)
    tl.store(y_ptr + row * N + cols, y, mask=mask)


@triton.jit
def norm_backward(dy_ptr: Any, x_ptr: Any, w_ptr: Any, mean_ptr: Any, r_ptr: Any, dx_ptr: Any, dw_ptr: Any,
                  db_ptr: Any, N: Any, BLOCK: tl.constexpr) -> None:  # fmt: skip
    """dx (M, N); the gradients of w and b (N,) are added up by all programs."""
    row, cols = tl.program_id(0), tl.arange(0, BLOCK)
    mask = cols < N
    dy = tl.load(dy_ptr + row * N + cols, mask=mask, other=0.0).to(tl.float32)
    x = tl.load(x_ptr + row * N + cols, mask=mask, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    r = tl.load(r_ptr + row)
    x_hat = tl.where(mask, (x - tl.load(mean_ptr + row)) * r, 0.0)
    g = w * dy
    along_one = tl.sum(g, axis=0) / N
    along_x_hat = tl.sum(g * x_hat, axis=0) / N
    dx = r * (g - along_one - x_hat * along_x_hat)
    tl.store(dx_ptr + row * N + cols, dx, mask=mask)
    tl.atomic_add(dw_ptr + cols, dy * x_hat, mask=mask)
    tl.atomic_add(db_ptr + cols, dy, mask=mask)


class LayerNorm(torch.autograd.Function):
    """LayerNorm over the last axis of x (M, N), with weight and bias (N,)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """Launch the forward; save its inputs and the statistics."""
        x, weight, bias = x.contiguous(), weight.contiguous(), bias.contiguous()
        y, (M, N) = torch.empty_like(x), x.shape
        mean, r = (torch.empty(M, dtype=torch.float32, device=x.device) for _ in range(2))
        norm_forward[(M,)](x, weight, bias, y, mean, r, N, BLOCK=triton.next_power_of_2(N))
        ctx.save_for_backward(x, weight, mean, r)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Launch the backward."""
        x, weight, mean, r = ctx.saved_tensors
        dx, dw, db, (M, N) = torch.empty_like(x), torch.zeros_like(weight), torch.zeros_like(weight), x.shape
        block = triton.next_power_of_2(N)
        norm_backward[(M,)](dy.contiguous(), x, weight, mean, r, dx, dw, db, N, BLOCK=block)
        return dx, dw, db


def main() -> None:
    """Print the table."""
    rng = np.random.default_rng(0)
    print(npf.gradcheck(npf.from_torch(LayerNorm), rng.normal(size=(3, 5)), rng.normal(size=5), rng.normal(size=5)))


if __name__ == "__main__":
    main()
