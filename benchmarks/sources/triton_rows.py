"""Softmax, LayerNorm, RMSNorm and L2 norm in Triton: a program for each row."""

import torch
import triton
import triton.language as tl


@triton.jit
def _softmax_forward(x_ptr, y_ptr, row_stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * row_stride + cols, mask=mask, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + row * row_stride + cols, e / tl.sum(e, axis=0), mask=mask)


@triton.jit
def _softmax_backward(dy_ptr, y_ptr, dx_ptr, row_stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    dy = tl.load(dy_ptr + row * row_stride + cols, mask=mask, other=0.0)
    y = tl.load(y_ptr + row * row_stride + cols, mask=mask, other=0.0)
    inner = tl.sum(dy * y, axis=0)
    dx = y * (dy - inner)
    tl.store(dx_ptr + row * row_stride + cols, dx, mask=mask)


class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.contiguous()
        rows, n_cols = x.shape
        y = torch.empty_like(x)
        _softmax_forward[(rows,)](x, y, x.stride(0), n_cols, BLOCK=triton.next_power_of_2(n_cols))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, dy):
        (y,) = ctx.saved_tensors
        dy = dy.contiguous()
        rows, n_cols = y.shape
        dx = torch.empty_like(y)
        _softmax_backward[(rows,)](dy, y, dx, y.stride(0), n_cols, BLOCK=triton.next_power_of_2(n_cols))
        return dx


@triton.jit
def _layer_norm_forward(x_ptr, w_ptr, b_ptr, y_ptr, mean_ptr, rstd_ptr, stride, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / N
    centred = tl.where(mask, x - mean, 0.0)
    rstd = 1 / tl.sqrt(tl.sum(centred * centred, axis=0) / N + eps)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    w = tl.load(w_ptr + cols, mask=mask)
    b = tl.load(b_ptr + cols, mask=mask)
    tl.store(y_ptr + row * stride + cols, centred * rstd * w + b, mask=mask)


@triton.jit
def _layer_norm_dx(dy_ptr, x_ptr, w_ptr, mean_ptr, rstd_ptr, dx_ptr, stride, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0.0).to(tl.float32)
    dy = tl.load(dy_ptr + row * stride + cols, mask=mask, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    mean = tl.load(mean_ptr + row)
    rstd = tl.load(rstd_ptr + row)
    xhat = tl.where(mask, (x - mean) * rstd, 0.0)
    wdy = tl.where(mask, w * dy, 0.0)
    c1 = tl.sum(xhat * wdy, axis=0) / N
    c2 = tl.sum(wdy, axis=0) / N
    dx = (wdy - (xhat * c1 + c2)) * rstd
    tl.store(dx_ptr + row * stride + cols, dx, mask=mask)


@triton.jit
def _layer_norm_dwdb(
    dy_ptr, x_ptr, mean_ptr, rstd_ptr, dw_ptr, db_ptr, stride, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    dw = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    db = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, M, BLOCK_M):
        rows = start + tl.arange(0, BLOCK_M)
        mask = (rows[:, None] < M) & (cols[None, :] < N)
        offsets = rows[:, None] * stride + cols[None, :]
        dy = tl.load(dy_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        mean = tl.load(mean_ptr + rows, mask=rows < M, other=0.0)
        rstd = tl.load(rstd_ptr + rows, mask=rows < M, other=0.0)
        dw += dy * (x - mean[:, None]) * rstd[:, None]
        db += dy
    tl.store(dw_ptr + cols, tl.sum(dw, axis=0), mask=cols < N)
    tl.store(db_ptr + cols, tl.sum(db, axis=0), mask=cols < N)


class LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        x = x.contiguous()
        M, N = x.shape
        y = torch.empty_like(x)
        mean = torch.empty((M,), dtype=torch.float32, device=x.device)
        rstd = torch.empty((M,), dtype=torch.float32, device=x.device)
        ctx.BLOCK = triton.next_power_of_2(N)
        _layer_norm_forward[(M,)](x, weight, bias, y, mean, rstd, x.stride(0), N, 1e-5, BLOCK=ctx.BLOCK)
        ctx.save_for_backward(x, weight, mean, rstd)
        return y

    @staticmethod
    def backward(ctx, dy):
        x, weight, mean, rstd = ctx.saved_tensors
        dy = dy.contiguous()
        M, N = x.shape
        dx, dw, db = torch.empty_like(x), torch.empty_like(weight), torch.empty_like(weight)
        _layer_norm_dx[(M,)](dy, x, weight, mean, rstd, dx, x.stride(0), N, BLOCK=ctx.BLOCK)
        grid = lambda meta: (triton.cdiv(N, meta["BLOCK_N"]),)  # noqa: E731
        _layer_norm_dwdb[grid](dy, x, mean, rstd, dw, db, x.stride(0), M, N, BLOCK_M=2, BLOCK_N=4)
        return dx, dw, db


@triton.jit
def _rms_norm_forward(X, Y, W, RSTD, row_stride, n_cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    X += row * row_stride
    Y += row * row_stride
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(X + cols, mask=mask, other=0).to(tl.float32)
    w = tl.load(W + cols, mask=mask, other=0).to(tl.float32)
    rstd = tl.rsqrt(tl.sum(x * x, axis=0) / n_cols + eps)
    tl.store(RSTD + row, rstd)
    tl.store(Y + cols, x * rstd * w, mask=mask)


@triton.jit
def _rms_norm_backward(DY, DX, X, W, RSTD, DW, row_stride, n_cols, n_rows, rows_each, BLOCK: tl.constexpr):
    first = tl.program_id(0) * rows_each
    last = tl.minimum(first + rows_each, n_rows)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    w = tl.load(W + cols, mask=mask, other=0.0).to(tl.float32)
    dw = tl.zeros((BLOCK,), dtype=tl.float32)
    for row in range(first, last):
        dy = tl.load(DY + row * row_stride + cols, mask=mask, other=0.0).to(tl.float32)
        x = tl.load(X + row * row_stride + cols, mask=mask, other=0.0).to(tl.float32)
        rstd = tl.load(RSTD + row)
        m = dy * w
        dx = rstd * m
        dx += rstd * (-(1 / n_cols) * rstd * rstd * tl.sum(m * x, axis=0) * x)
        dw += dy * (x * rstd)
        tl.store(DX + row * row_stride + cols, dx, mask=mask)
    tl.store(DW + tl.program_id(0) * n_cols + cols, dw, mask=mask)


class RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        x = x.contiguous()
        n_rows, n_cols = x.shape
        y, rstd = torch.empty_like(x), torch.empty(n_rows, dtype=torch.float32, device=x.device)
        block = triton.next_power_of_2(n_cols)
        _rms_norm_forward[(n_rows,)](x, y, weight, rstd, x.stride(0), n_cols, 1e-6, BLOCK=block)
        ctx.save_for_backward(x, weight, rstd)
        ctx.block = block
        return y

    @staticmethod
    def backward(ctx, dy):
        x, weight, rstd = ctx.saved_tensors
        dy = dy.contiguous()
        n_rows, n_cols = x.shape
        programs = 2
        dx, dw = torch.empty_like(x), torch.empty((programs, n_cols), dtype=torch.float32, device=x.device)
        _rms_norm_backward[(programs,)](
            dy, dx, x, weight, rstd, dw, x.stride(0), n_cols, n_rows, triton.cdiv(n_rows, programs), BLOCK=ctx.block
        )
        return dx, dw.sum(dim=0).to(weight.dtype)


@triton.jit
def _l2_norm_forward(x_ptr, y_ptr, norm_ptr, n_cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0)
    norm = tl.sqrt(tl.sum(x * x, 0) + eps)
    tl.store(norm_ptr + row, norm)
    tl.store(y_ptr + row * n_cols + cols, x / norm, mask=mask)


@triton.jit
def _l2_norm_backward(y_ptr, norm_ptr, dy_ptr, dx_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    y = tl.load(y_ptr + row * n_cols + cols, mask=mask, other=0.0)
    dy = tl.load(dy_ptr + row * n_cols + cols, mask=mask, other=0.0)
    norm = tl.load(norm_ptr + row)
    dot = tl.sum(y * dy, 0)
    dx = (dy - y * dot) / norm
    tl.store(dx_ptr + row * n_cols + cols, dx, mask=mask)


class L2Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        n_cols = x.shape[-1]
        flat = x.reshape(-1, n_cols)
        y, norm = torch.empty_like(flat), flat.new_empty(flat.shape[0])
        _l2_norm_forward[(flat.shape[0],)](flat, y, norm, n_cols, 1e-6, triton.next_power_of_2(n_cols))
        ctx.save_for_backward(y, norm)
        return y.view(x.shape)

    @staticmethod
    def backward(ctx, dy):
        y, norm = ctx.saved_tensors
        shape, n_cols = dy.shape, dy.shape[-1]
        dy = dy.reshape(-1, n_cols).contiguous()
        dx = torch.empty_like(y)
        _l2_norm_backward[(y.shape[0],)](y, norm, dy, dx, n_cols, triton.next_power_of_2(n_cols))
        return dx.view(shape)
