"""The operations in PyTorch, as a good program writes them; autograd runs the backward."""

import math

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812

from benchmarks.cases import BUCKETS, EPS, FARTHEST, KERNEL, RATE, case, window
from benchmarks.peers.torch_device import about, place, waiting
from benchmarks.peers.torch_model import sinusoids
from benchmarks.tasks import TOGETHER, Contender, repeated
from npformer.models.presets import PRESETS, Preset

#: Which inputs are matrices, (out, in) in PyTorch, or kernels, (out, in, K).
TRANSPOSED = {"linear": (1,), "feed_forward": (1, 3), "gru": (2, 4), "conv1d": (1,)}


def ops(size, device, threads, precision="float32"):
    """Tasks "linear forward", "linear backward" and so on. Forward records the autograd graph, as in training."""
    torch.set_num_threads(threads)
    at, together = place(device, precision), TOGETHER[device]

    def make(name, backward):
        function, inputs, sample = prepared(name, PRESETS[size], RATE, at)
        return repeated(_backward(function, inputs, sample) if backward else _forward(function, inputs), together)

    tasks = {}
    for name in spellings(PRESETS[size], RATE, at):
        tasks[f"{name} forward"] = lambda name=name: make(name, backward=False)
        tasks[f"{name} backward"] = lambda name=name: make(name, backward=True)
    return Contender(about(), tasks, synchronize=waiting(at), together=together)


def prepared(name, size: Preset, rate, at):
    """(the function, its inputs, their case) for the operation of that name."""
    sample = case(name, size)
    inputs = []
    for i, array in enumerate(sample.arrays):
        turned = np.ascontiguousarray(array.T) if i in TRANSPOSED.get(name, ()) else array
        tensor = torch.from_numpy(turned).to(at)
        inputs.append(tensor.requires_grad_() if tensor.is_floating_point() else tensor)
    return spellings(size, rate, at)[name], inputs, sample


def _forward(function, inputs):
    def run():
        function(*inputs)

    return run


def upstream(sample, outputs):
    """The upstream gradients: one for each output, with the output's device and dtype."""
    return [
        torch.from_numpy(np.asarray(dy, dtype=np.float32)).to(y)
        for dy, y in zip(sample.dy(outputs), outputs, strict=True)
    ]


def _backward(function, inputs, sample):
    outputs = function(*inputs)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    wanted = [x for x in inputs if x.requires_grad]
    like = upstream(sample, outputs)

    def run():
        torch.autograd.grad(outputs, wanted, like, retain_graph=True)

    return run


def spellings(size: Preset, rate, at):
    """Each operation as a function of tensors; tables and masks are made beforehand."""
    table = sinusoids(size.length, size.d_model).to(at)
    width = (size.d_model,)

    def drop(x):
        return F.dropout(x, rate, training=True)

    def add_norm(x, f, gamma, beta):
        total = x + drop(f)
        return total, F.layer_norm(total, width, gamma, beta, EPS)

    return {
        "linear": F.linear,
        "relu": F.relu,
        "gelu": F.gelu,
        "softmax": lambda x: x.softmax(-1),
        "dropout": drop,
        "embedding": lambda tokens, weight: F.embedding(tokens, weight) * size.d_model**0.5,
        "sinusoidal_positions": lambda x: x + table,
        "learned_positions": lambda x, weight: x + weight[: x.shape[1]],
        "layer_norm": lambda x, gamma, beta: F.layer_norm(x, width, gamma, beta, EPS),
        "residual": lambda x, f: x + drop(f),
        "post_norm": lambda x, f, gamma, beta: F.layer_norm(x + drop(f), width, gamma, beta, EPS),
        "add_norm": add_norm,
        "feed_forward": lambda x, w1, b1, w2, b2: F.linear(drop(F.relu(F.linear(x, w1, b1))), w2, b2),
        "cross_entropy": lambda z, targets: F.cross_entropy(z.flatten(0, 1), targets.flatten(), ignore_index=0),
        **_of_attention(size, rate, at),
        **_of_other_models(),
    }


def _of_attention(size: Preset, rate, at):
    """All kinds of attention, and positions. A window is a mask here: it hides scores and saves no work."""
    length, attend = size.length, F.scaled_dot_product_attention
    past = torch.ones(length, length, dtype=torch.bool, device=at).tril()
    some = torch.ones(size.batch, 1, 1, length, dtype=torch.bool, device=at)
    visible, near = some & past, some & past.triu(1 - window(size))
    hidden_bias = torch.zeros(visible.shape, device=at).masked_fill(~visible, -math.inf)
    entries = _buckets(length).to(at)
    wide = size.d_model // size.num_heads
    angle = torch.arange(length)[:, None] * 10000.0 ** (torch.arange(0, wide, 2) * (-1 / wide))
    turn = torch.polar(torch.ones_like(angle), angle).to(at)  # (T, D/2)

    def rotary(x):
        points = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
        return torch.view_as_real(points * turn).flatten(-2)

    def linear_attention(q, k, v):
        fq, fk = F.elu(q) + 1, F.elu(k) + 1
        return (fq @ (fk.mT @ v)) / (fq @ fk.sum(-2)[..., None])

    return {
        "rotary": rotary,
        "relative_bias": lambda weight: F.embedding(entries, weight).permute(2, 0, 1),
        "attention": lambda q, k, v: attend(q, k, v, attn_mask=visible, dropout_p=rate),
        "biased_attention": lambda q, k, v, bias: attend(q, k, v, attn_mask=bias + hidden_bias, dropout_p=rate),
        "local_attention": lambda q, k, v: attend(q, k, v, attn_mask=near, dropout_p=rate),
        "linear_attention": linear_attention,
    }


def _of_other_models():
    """Operations of networks that are not, or not only, Transformers."""

    def remembered(x, gamma, beta, mean, variance):
        return (x - mean) * (variance + EPS).rsqrt() * gamma + beta  # F.batch_norm has no gradient of mean and variance

    def batch_norm(x, gamma, beta):
        return F.batch_norm(x.flatten(0, 1), None, None, gamma, beta, training=True, eps=EPS).view_as(x)

    def gru(x, start, weight, bias, recurrent, u_bias):
        weights = [weight, recurrent, bias, u_bias]
        return torch.gru(x, start[None], weights, True, 1, 0.0, True, False, True)[0]

    return {
        "batch_norm": batch_norm,
        "batch_norm_inference": remembered,
        "gru": gru,
        "conv1d": lambda x, weight, bias: F.conv1d(x.mT, weight, bias, padding=(KERNEL - 1) // 2).mT,
    }


def _buckets(length):
    """Which entry of the table of relative positions each pair uses, (T, T), as T5 has it."""
    ahead = torch.arange(length)[None, :] - torch.arange(length)[:, None]
    share, n = BUCKETS // 2, ahead.abs()
    near = share // 2
    far = near + (torch.log(n.clamp(min=near) / near) / math.log(FARTHEST / near) * (share - near)).long()
    return (ahead > 0) * share + torch.where(n < near, n, far.clamp(max=share - 1))
