"""PyTorch's autograd Functions as people write them."""

import math

import torch
from torch.nn import functional


class LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, gamma, beta):
        mean = x.mean(dim=-1, keepdim=True)
        var = ((x - mean) ** 2).mean(dim=-1, keepdim=True)
        r = torch.rsqrt(var + 1e-5)
        x_hat = (x - mean) * r
        ctx.save_for_backward(x_hat, r, gamma)
        return gamma * x_hat + beta

    @staticmethod
    def backward(ctx, dy):
        x_hat, r, gamma = ctx.saved_tensors
        tokens = tuple(range(dy.dim() - 1))
        dx = dgamma = dbeta = None
        if ctx.needs_input_grad[1]:
            dgamma = (dy * x_hat).sum(dim=tokens)
        if ctx.needs_input_grad[2]:
            dbeta = dy.sum(dim=tokens)
        if ctx.needs_input_grad[0]:
            g = dy * gamma
            along_one = g.mean(dim=-1, keepdim=True)
            along_x_hat = (g * x_hat).mean(dim=-1, keepdim=True)
            dx = r * (g - along_one - x_hat * along_x_hat)
        return dx, dgamma, dbeta


class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dim):
        y = torch.softmax(x, dim=dim)
        ctx.save_for_backward(y)
        ctx.dim = dim
        return y

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        inner = torch.sum(grad_output * y, dim=ctx.dim, keepdim=True)
        return y * (grad_output - inner), None


class Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, input, weight, bias):
        ctx.save_for_backward(input, weight)
        return input.mm(weight.t()) + bias.unsqueeze(0).expand(input.shape[0], -1)

    @staticmethod
    def backward(ctx, grad_output):
        input, weight = ctx.saved_tensors
        grad_input = grad_weight = grad_bias = None
        if ctx.needs_input_grad[0]:
            grad_input = grad_output.mm(weight)
        if ctx.needs_input_grad[1]:
            grad_weight = grad_output.t().mm(input)
        if ctx.needs_input_grad[2]:
            grad_bias = grad_output.sum(0)
        return grad_input, grad_weight, grad_bias


class Gelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        cdf = 0.5 * (1 + torch.erf(x / math.sqrt(2)))
        pdf = torch.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
        return dy * (cdf + x * pdf)


class Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        scale = q.shape[-1] ** -0.5
        scores = torch.matmul(q, k.transpose(-2, -1)) * scale
        probs = functional.softmax(scores, dim=-1)
        ctx.save_for_backward(q, k, v, probs)
        ctx.scale = scale
        return torch.matmul(probs, v)

    @staticmethod
    def backward(ctx, do):
        q, k, v, probs = ctx.saved_tensors
        dv = torch.matmul(probs.transpose(-2, -1), do)
        dp = torch.matmul(do, v.transpose(-2, -1))
        ds = probs * (dp - (dp * probs).sum(dim=-1, keepdim=True))
        ds = ds * ctx.scale
        dq = torch.matmul(ds, k)
        dk = torch.matmul(ds.transpose(-2, -1), q)
        return dq, dk, dv


class Embedding(torch.autograd.Function):
    @staticmethod
    def forward(ctx, weight, ids, padding):
        ctx.save_for_backward(ids)
        ctx.rows, ctx.padding = weight.shape[0], padding
        return weight[ids] * (ids != padding).unsqueeze(-1)

    @staticmethod
    def backward(ctx, dy):
        (ids,) = ctx.saved_tensors
        flat = dy.reshape(-1, dy.shape[-1])
        dw = dy.new_zeros(ctx.rows, dy.shape[-1])
        dw.index_add_(0, ids.reshape(-1), flat)
        dw[ctx.padding] = 0
        return dw, None, None


class LeakyReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, slope):
        ctx.save_for_backward(x)
        ctx.slope = slope
        return torch.where(x > 0, x, slope * x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        grad_x = grad.clone()
        grad_x[x <= 0] *= ctx.slope
        return grad_x, None


class CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, labels):
        logp = logits - torch.logsumexp(logits, dim=1, keepdim=True)
        ctx.save_for_backward(logp, labels)
        return -logp.gather(1, labels[:, None]).mean()

    @staticmethod
    def backward(ctx, dloss):
        logp, labels = ctx.saved_tensors
        grad = logp.exp()
        grad[torch.arange(len(labels)), labels] -= 1
        grad /= len(labels)
        return dloss * grad, None
