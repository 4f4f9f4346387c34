"""The operations in PyTorch, as a good program writes them, and the inputs of all operations in a small model."""

import math

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812

from benchmarks.peers.torch_model import sinusoids
from npformer.check.cases import op_samples
from npformer.check.cases.case import UsualSizes
from npformer.models.presets import Preset

EPS = 1e-5
BUCKETS, FARTHEST = 32, 128  # of relative positions, as T5 has them
KERNEL = 3  # width of a convolution, in tokens
#: Which inputs are matrices, (out, in) in PyTorch, or kernels, (out, in, K).
TRANSPOSED = {"linear": (1,), "feed_forward": (1, 3), "gru": (2, 4), "conv1d": (1,)}


class SizesOfAModel(UsualSizes):
    """Numbers are random, so that no branch and no value is favoured; no token is hidden, nothing is dropped."""

    def __init__(self, op, size: Preset):
        super().__init__(np.random.default_rng(0))
        c = size.d_model
        letters = {
            "B": size.batch, "T": size.length, "S": size.length, "C": c, "H": size.num_heads, "D": c // size.num_heads,
            "F": size.d_ff, "V": size.vocab_size, "I": c, "K": BUCKETS // 2 if op == "relative_bias" else KERNEL,
            "O": 3 * c if op == "linear" else c,  # the linear map to queries, keys and values
        }  # fmt: skip
        vars(self).update(letters)

    def normal(self, *shape):
        return self._rng.standard_normal(shape, dtype=np.float32)

    def ids(self, below):
        return self._rng.integers(1, below, (self.B, self.T))

    def visible(self, *shape, least=0):
        return np.ones(shape, dtype=bool)

    def draw(self):
        return None


def case(op, size: Preset):
    """(arrays, other arguments) of the operation's forward in a model of that size."""
    sample = getattr(op_samples, op)(SizesOfAModel(op, size))
    arrays = tuple(x for x in sample if isinstance(x, np.ndarray))
    return arrays, sample[len(arrays) :]


def tensors(name, arrays):
    """The same arrays as PyTorch takes them."""
    made = [np.ascontiguousarray(x.T) if i in TRANSPOSED.get(name, ()) else x for i, x in enumerate(arrays)]
    return [x.requires_grad_() if x.is_floating_point() else x for x in map(torch.from_numpy, made)]


def spellings(size: Preset):
    """Each operation as a function of tensors; tables and masks are made beforehand."""
    table = sinusoids(size.length, size.d_model)
    width = (size.d_model,)

    def add_norm(x, f, gamma, beta):
        return x + f, F.layer_norm(x + f, width, gamma, beta, EPS)

    return {
        "linear": F.linear,
        "relu": F.relu,
        "gelu": F.gelu,
        "softmax": lambda x: x.softmax(-1),
        "dropout": lambda x: x,
        "embedding": lambda tokens, weight: F.embedding(tokens, weight) * size.d_model**0.5,
        "sinusoidal_positions": lambda x: x + table,
        "learned_positions": lambda x, weight: x + weight[: x.shape[1]],
        "layer_norm": lambda x, gamma, beta: F.layer_norm(x, width, gamma, beta, EPS),
        "residual": lambda x, f: x + f,
        "post_norm": lambda x, f, gamma, beta: F.layer_norm(x + f, width, gamma, beta, EPS),
        "add_norm": add_norm,
        "feed_forward": lambda x, w1, b1, w2, b2: F.linear(F.relu(F.linear(x, w1, b1)), w2, b2),
        "cross_entropy": lambda z, targets: F.cross_entropy(z.flatten(0, 1), targets.flatten(), ignore_index=0),
        **_of_attention(size),
        **_of_other_models(),
    }


def _of_attention(size: Preset):
    """All kinds of attention, and positions. A window is a mask here: it hides scores and saves no work."""
    length, attend = size.length, F.scaled_dot_product_attention
    past = torch.ones(length, length, dtype=torch.bool).tril()
    some = torch.ones(size.batch, 1, 1, length, dtype=torch.bool)
    visible, near = some & past, some & past.triu(1 - max(1, length // 8))
    hidden_bias = torch.zeros(visible.shape).masked_fill(~visible, -math.inf)
    entries = _buckets(length)
    wide = size.d_model // size.num_heads
    angle = torch.arange(length)[:, None] * 10000.0 ** (torch.arange(0, wide, 2) * (-1 / wide))
    turn = torch.polar(torch.ones_like(angle), angle)  # (T, D/2)

    def rotary(x):
        points = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
        return torch.view_as_real(points * turn).flatten(-2)

    def linear_attention(q, k, v):
        fq, fk = F.elu(q) + 1, F.elu(k) + 1
        return (fq @ (fk.mT @ v)) / (fq @ fk.sum(-2)[..., None])

    return {
        "rotary": rotary,
        "relative_bias": lambda weight: F.embedding(entries, weight).permute(2, 0, 1),
        "attention": lambda q, k, v: attend(q, k, v, attn_mask=visible),
        "biased_attention": lambda q, k, v, bias: attend(q, k, v, attn_mask=bias + hidden_bias),
        "local_attention": lambda q, k, v: attend(q, k, v, attn_mask=near),
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
