"""Right kernels of PyTorch: its own operations, and formulas in elementary ones, each result stored in the dtype."""

import math

import torch
from torch.nn import functional

from benchmarks.precision.references import CUBE, ROOT
from benchmarks.precision.references_of_products import turns


def softmax(x):
    e = torch.exp(x - x.amax(-1, keepdim=True).detach())
    return e / e.sum(-1, keepdim=True)


def log_softmax(x):
    z = x - x.amax(-1, keepdim=True).detach()
    return z - z.exp().sum(-1, keepdim=True).log()


def logsumexp(x):
    top = x.amax(-1, keepdim=True).detach()
    return ((x - top).exp().sum(-1, keepdim=True).log() + top)[..., 0]


def layer_norm(x, gamma, beta):
    c = x - x.mean(-1, keepdim=True)
    return c * torch.rsqrt((c * c).mean(-1, keepdim=True) + 1e-5) * gamma + beta


def batch_norm(x, gamma, beta):
    c = x - x.mean(0)
    return c * torch.rsqrt((c * c).mean(0) + 1e-5) * gamma + beta


def gelu_tanh(x):
    return 0.5 * x * (1 + torch.tanh(ROOT * (x + CUBE * x * x * x)))


class Tanh(torch.autograd.Function):
    """With a backward by hand, in elementary operations."""

    @staticmethod
    def forward(ctx, x):
        y = torch.tanh(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, dy):
        (y,) = ctx.saved_tensors
        return dy * (1 - y * y)


class Silu(torch.autograd.Function):
    """With a backward by hand, in elementary operations."""

    @staticmethod
    def forward(ctx, x):
        s = torch.sigmoid(x)
        ctx.save_for_backward(x, s)
        return x * s

    @staticmethod
    def backward(ctx, dy):
        x, s = ctx.saved_tensors
        return dy * (s * (1 + x * (1 - s)))


def attention(q, k, v, mask=None):
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    return softmax(scores if mask is None else scores.masked_fill(~mask, -math.inf)) @ v


def rotary(x):
    cosines, sines = (torch.tensor(part, dtype=x.dtype) for part in turns(*x.shape))
    low, high = x.chunk(2, -1)
    return torch.cat([low * cosines - high * sines, high * cosines + low * sines], -1)


#: Formula -> right kernels, as functions of tensors.
KERNELS = {
    "softmax": (lambda x: functional.softmax(x, -1), softmax),
    "log_softmax": (lambda x: functional.log_softmax(x, -1), log_softmax),
    "logsumexp": (lambda x: x.logsumexp(-1), logsumexp),
    "cross_entropy": (
        functional.cross_entropy,
        lambda x, classes: -log_softmax(x)[torch.arange(len(x)), classes].mean(),
    ),
    "layer_norm": (lambda x, gamma, beta: functional.layer_norm(x, gamma.shape, gamma, beta), layer_norm),
    "rms_norm": (
        lambda x, gamma: functional.rms_norm(x, gamma.shape, gamma, 1e-6),
        lambda x, gamma: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * gamma,
    ),
    "batch_norm": (lambda x, gamma, beta: functional.batch_norm(x, None, None, gamma, beta, True), batch_norm),
    "unit": (
        lambda x: functional.normalize(x, dim=-1),
        lambda x: x * torch.rsqrt((x * x).sum(-1, keepdim=True)),
    ),
    "gelu": (functional.gelu, lambda x: 0.5 * x * (1 + torch.erf(x * math.sqrt(0.5)))),
    "gelu_tanh": (lambda x: functional.gelu(x, approximate="tanh"), gelu_tanh),
    "silu": (functional.silu, lambda x: x / (1 + torch.exp(-x)), lambda x: x * torch.sigmoid(x), Silu.apply),
    "swiglu": (
        lambda gate, up: functional.silu(gate) * up,
        lambda gate, up: gate / (1 + torch.exp(-gate)) * up,
        lambda gate, up: gate * torch.sigmoid(gate) * up,
    ),
    "tanh": (torch.tanh, Tanh.apply),
    "linear": (lambda x, weight, bias: functional.linear(x, weight.T, bias), lambda x, weight, bias: x @ weight + bias),
    "attention": (functional.scaled_dot_product_attention, attention),
    "causal attention": (functional.scaled_dot_product_attention, attention),
    "mlp": (
        lambda x, w1, w2: functional.silu(x @ w1) @ w2,
        lambda x, w1, w2: (x @ w1) * torch.sigmoid(x @ w1) @ w2,
    ),
    "embedding": (lambda table, ids: functional.embedding(ids, table), lambda table, ids: table[ids]),
    "rotary": (rotary,),
    "squared_error": (functional.mse_loss, lambda x, target: ((x - target) ** 2).mean()),
}
