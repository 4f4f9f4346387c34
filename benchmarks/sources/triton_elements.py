"""GELU, SwiGLU, a tanh gate and a rotation in Triton."""

import torch
import triton
import triton.language as tl


@triton.jit
def _tanh(x):
    return 2 * tl.sigmoid(2 * x) - 1


@triton.jit
def _gelu_forward(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    tl.store(y_ptr + offsets, 0.5 * x * (1 + _tanh(inner)), mask=mask)


@triton.jit
def _gelu_backward(dy_ptr, x_ptr, dx_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    dy = tl.load(dy_ptr + offsets, mask=mask)
    x = tl.load(x_ptr + offsets, mask=mask)
    inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    t = _tanh(inner)
    d_inner = 0.7978845608028654 * (1 + 3 * 0.044715 * x * x)
    slope = 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * d_inner
    tl.store(dx_ptr + offsets, dy * slope, mask=mask)


class Gelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.empty_like(x)
        grid = lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)  # noqa: E731
        _gelu_forward[grid](x, y, x.numel(), BLOCK=8)
        ctx.save_for_backward(x)
        return y

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        dy, dx = dy.contiguous(), torch.empty_like(x)
        grid = lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)  # noqa: E731
        _gelu_backward[grid](dy, x, dx, x.numel(), BLOCK=8)
        return dx


@triton.jit
def silu(x):
    return x * tl.sigmoid(x)


@triton.jit
def _swiglu_forward(a_ptr, b_ptr, c_ptr, stride, n_cols: tl.constexpr, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * stride
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    a = tl.load(a_ptr + start + cols, mask=mask, other=0).to(tl.float32)
    b = tl.load(b_ptr + start + cols, mask=mask, other=0)
    tl.store(c_ptr + start + cols, silu(a) * b, mask=mask)


@triton.jit
def _swiglu_backward(dc_ptr, a_ptr, b_ptr, da_ptr, db_ptr, stride, n_cols: tl.constexpr, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * stride
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    dc = tl.load(dc_ptr + start + cols, mask=mask, other=0)
    a = tl.load(a_ptr + start + cols, mask=mask, other=0).to(tl.float32)
    b = tl.load(b_ptr + start + cols, mask=mask, other=0)
    sig_a = tl.sigmoid(a)
    silu_a = a * sig_a
    db = dc * silu_a
    da = dc * (silu_a * (1 - sig_a) + sig_a) * b
    tl.store(da_ptr + start + cols, da, mask=mask)
    tl.store(db_ptr + start + cols, db, mask=mask)


def swiglu_backward(a, b, dc):
    """Launches the kernel; Function.backward calls this."""
    n_cols = a.shape[-1]
    da, db = torch.empty_like(a), torch.empty_like(b)
    block = triton.next_power_of_2(n_cols)
    _swiglu_backward[(a.shape[0],)](dc, a, b, da, db, dc.stride(-2), n_cols=n_cols, BLOCK=block)
    return da, db


class SwiGLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        a, b = a.contiguous(), b.contiguous()
        c, n_cols = torch.empty_like(a), a.shape[-1]
        block = triton.next_power_of_2(n_cols)
        _swiglu_forward[(a.shape[0],)](a, b, c, c.stride(-2), n_cols=n_cols, BLOCK=block)
        ctx.save_for_backward(a, b)
        return c

    @staticmethod
    def backward(ctx, dc):
        a, b = ctx.saved_tensors
        return swiglu_backward(a, b, dc.contiguous())


@triton.jit
def _gate_forward(x_ptr, h_ptr, alpha_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    h = tl.load(h_ptr + offsets, mask=mask, other=0.0)
    gate = _tanh(tl.load(alpha_ptr))
    tl.store(y_ptr + offsets, x + gate * h, mask=mask)


@triton.jit
def _gate_backward(dy_ptr, h_ptr, alpha_ptr, dh_ptr, dalpha_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    dy = tl.load(dy_ptr + offsets, mask=mask, other=0.0)
    h = tl.load(h_ptr + offsets, mask=mask, other=0.0)
    gate = _tanh(tl.load(alpha_ptr))
    tl.store(dh_ptr + offsets, gate * dy, mask=mask)
    d_gate = tl.sum(dy * h, axis=0)
    tl.atomic_add(dalpha_ptr, d_gate * (1 - gate * gate))


class TanhGate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, h, alpha):
        x, h = x.contiguous(), h.contiguous()
        y = torch.empty_like(x)
        _gate_forward[(triton.cdiv(x.numel(), 8),)](x, h, alpha, y, x.numel(), BLOCK=8)
        ctx.save_for_backward(h, alpha)
        return y

    @staticmethod
    def backward(ctx, dy):
        h, alpha = ctx.saved_tensors
        dy = dy.contiguous()
        dh, dalpha = torch.empty_like(h), torch.zeros_like(alpha)
        _gate_backward[(triton.cdiv(h.numel(), 8),)](dy, h, alpha, dh, dalpha, h.numel(), BLOCK=8)
        return dy, dh, dalpha


@triton.jit
def _rotate(x_ptr, cos_ptr, sin_ptr, y_ptr, half, BACKWARD: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < half
    first = tl.load(x_ptr + row * 2 * half + cols, mask=mask, other=0.0)
    second = tl.load(x_ptr + row * 2 * half + half + cols, mask=mask, other=0.0)
    cos = tl.load(cos_ptr + row * half + cols, mask=mask, other=0.0)
    sin = tl.load(sin_ptr + row * half + cols, mask=mask, other=0.0)
    if BACKWARD:
        tl.store(y_ptr + row * 2 * half + cols, first * cos + second * sin, mask=mask)
        tl.store(y_ptr + row * 2 * half + half + cols, second * cos - first * sin, mask=mask)
    else:
        tl.store(y_ptr + row * 2 * half + cols, first * cos - second * sin, mask=mask)
        tl.store(y_ptr + row * 2 * half + half + cols, second * cos + first * sin, mask=mask)


class Rotation(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, cos, sin):
        y = torch.empty_like(x)
        _rotate[(x.shape[0],)](x, cos, sin, y, cos.shape[1], False, triton.next_power_of_2(cos.shape[1]))
        ctx.save_for_backward(cos, sin)
        return y

    @staticmethod
    def backward(ctx, dy):
        cos, sin = ctx.saved_tensors
        dy, half = dy.contiguous(), cos.shape[1]
        dx = torch.empty_like(dy)
        _rotate[(dy.shape[0],)](dy, cos, sin, dx, half, True, triton.next_power_of_2(half))
        return dx, None, None
