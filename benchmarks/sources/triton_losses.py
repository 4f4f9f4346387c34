"""The Huber loss and cross-entropy in Triton."""

import torch
import triton
import triton.language as tl


@triton.jit
def _huber_forward(x_ptr, t_ptr, loss_ptr, n_cols, delta, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0)
    t = tl.load(t_ptr + row * n_cols + cols, mask=mask, other=0.0)
    r = x - t
    size = tl.abs(r)
    loss = tl.where(size <= delta, 0.5 * r * r, delta * (size - 0.5 * delta))
    tl.store(loss_ptr + row, tl.sum(loss, axis=0) / n_cols)


@triton.jit
def _huber_backward(dloss_ptr, x_ptr, t_ptr, dx_ptr, dt_ptr, n_cols, delta, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    dloss = tl.load(dloss_ptr + row)
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0)
    t = tl.load(t_ptr + row * n_cols + cols, mask=mask, other=0.0)
    r = x - t
    outside = tl.where(r > 0, delta, -delta)
    slope = tl.where(tl.abs(r) <= delta, r, outside)
    grad = dloss * slope / n_cols
    tl.store(dx_ptr + row * n_cols + cols, grad, mask=mask)
    tl.store(dt_ptr + row * n_cols + cols, -grad, mask=mask)


class Huber(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, target, delta):
        loss = x.new_empty(x.shape[0])
        block = triton.next_power_of_2(x.shape[1])
        _huber_forward[(x.shape[0],)](x, target, loss, x.shape[1], delta, BLOCK=block)
        ctx.save_for_backward(x, target)
        ctx.delta, ctx.block = delta, block
        return loss

    @staticmethod
    def backward(ctx, dloss):
        x, target = ctx.saved_tensors
        dx, dt = torch.empty_like(x), torch.empty_like(target)
        _huber_backward[(x.shape[0],)](dloss.contiguous(), x, target, dx, dt, x.shape[1], ctx.delta, BLOCK=ctx.block)
        return dx, dt, None


@triton.jit
def _cross_entropy_forward(logits_ptr, label_ptr, loss_ptr, lse_ptr, n_cols, ignore, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    label = tl.load(label_ptr + row)
    cols = tl.arange(0, BLOCK)
    logits = tl.load(logits_ptr + row * n_cols + cols, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
    top = tl.max(logits, 0)
    lse = top + tl.log(tl.sum(tl.exp(logits - top), 0))
    loss = 0.0
    if label != ignore:
        loss = lse - tl.load(logits_ptr + row * n_cols + label).to(tl.float32)
    tl.store(loss_ptr + row, loss)
    tl.store(lse_ptr + row, lse)


@triton.jit
def _cross_entropy_backward(
    dloss_ptr, logits_ptr, label_ptr, lse_ptr, dlogits_ptr, n_cols, ignore, BLOCK: tl.constexpr
):
    row = tl.program_id(0)
    label = tl.load(label_ptr + row)
    dloss = tl.load(dloss_ptr + row)
    lse = tl.load(lse_ptr + row)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    logits = tl.load(logits_ptr + row * n_cols + cols, mask=mask, other=-float("inf")).to(tl.float32)
    probs = tl.exp(logits - lse)
    probs = tl.where(cols == label, probs - 1.0, probs)
    scale = tl.where(label != ignore, dloss, 0.0)
    tl.store(dlogits_ptr + row * n_cols + cols, probs * scale, mask=mask)


class CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, labels, ignore):
        rows, n_cols = logits.shape
        loss = torch.empty(rows, dtype=torch.float32, device=logits.device)
        lse = torch.empty(rows, dtype=torch.float32, device=logits.device)
        block = triton.next_power_of_2(n_cols)
        _cross_entropy_forward[(rows,)](logits, labels, loss, lse, n_cols, ignore, BLOCK=block)
        ctx.save_for_backward(logits, labels, lse)
        ctx.ignore, ctx.block = ignore, block
        return loss

    @staticmethod
    def backward(ctx, dloss):
        logits, labels, lse = ctx.saved_tensors
        dlogits = torch.empty_like(logits)
        _cross_entropy_backward[(logits.shape[0],)](
            dloss.contiguous(), logits, labels, lse, dlogits, logits.shape[1], ctx.ignore, BLOCK=ctx.block
        )
        return dlogits, None, None
