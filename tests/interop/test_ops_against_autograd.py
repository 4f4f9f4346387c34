"""Every pair of functional/ against the same operation of PyTorch, differentiated by torch.autograd.

Central differences and the complex step show that a backward belongs to its forward; this shows that
the forward is the operation that the rest of the world calls by that name. Operations that are not here
tests/benchmarks/test_peers.py compares; it goes over them all.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

from npformer import functional as F  # noqa: N812
from npformer.functional import AttentionMask, Draw

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
nn = torch.nn.functional

RNG = np.random.default_rng(0)
TOKENS = RNG.integers(0, 5, size=(3, 6))  # each of 5 rows several times
TARGETS = np.array([[4, 0, 2, 2, 0], [1, 3, 0, 0, 0], [0, 0, 0, 0, 0]])  # 0 counts or not, as ignore_index says
DRAW = Draw(seed=1, step=2, micro=0, site=3, rate=0.3)
#: (B, S), True = visible; the first key of every sequence is, so that no query sees nothing (NaN in PyTorch).
VISIBLE = np.array([[1, 1, 1, 1, 0, 1, 0], [1, 0, 1, 1, 1, 0, 1]], dtype=bool)
CAUSAL = np.tril(np.ones((6, 7), dtype=bool))
CAUSAL_FROM_2 = np.tril(np.ones((6, 7), dtype=bool), 2)
TOKEN, VECTOR = (3, 6, 4), (4,)  # (B, T, C) and (C,)
QKV = [(2, 3, 6, 4), (2, 3, 7, 4), (2, 3, 7, 4)]
NEAR = np.abs(np.subtract.outer(np.arange(6), np.arange(7))) < 3


class Case(NamedTuple):
    """One comparison: a pair, and PyTorch's function of the same float inputs."""

    name: str  # of the pair, and behind a comma what is special
    shapes: Sequence[tuple[int, ...]]  # of the inputs
    theirs: Callable[..., Any]  # (*tensors) -> y
    options: tuple[Any, ...] = ()  # of the forward, behind the inputs
    tokens: tuple[Any, ...] = ()  # before them


def dropped(x):
    """x times what dropout multiplies by under DRAW: 0, or 1/(1 − rate) as nearly as 16 bits can say it."""
    kept, _ = F.dropout_forward(np.ones(x.shape), DRAW)
    assert set(np.round(np.unique(kept), 3)) == {0.0, 1.429}
    return x * torch.from_numpy(kept)


def norm(x, gamma, beta, eps=1e-5):
    return nn.layer_norm(x, x.shape[-1:], gamma, beta, eps)


def linear(x, weight, bias):
    return nn.linear(x, weight.T, bias)


def attention(name, mask, allowed):
    """allowed: PyTorch's boolean mask for the same thing, True = may be looked at."""
    return Case(
        f"attention, {name}",
        QKV,
        lambda q, k, v: nn.scaled_dot_product_attention(
            q, k, v, None if allowed is None else torch.from_numpy(allowed)
        ),
        (mask,),
    )


def dropped_attention(q, k, v):
    scores = (q @ k.mT / 2).masked_fill(~torch.from_numpy(CAUSAL), -torch.inf)
    return dropped(scores.softmax(-1)) @ v


def cross_entropy(ignore_index, smoothing):
    options = {"ignore_index": -100 if ignore_index is None else ignore_index, "label_smoothing": smoothing}
    return Case(
        f"cross_entropy, ignore {ignore_index}, smoothing {smoothing}",
        [(3, 5, 6)],
        lambda z: nn.cross_entropy(z.reshape(-1, 6), torch.from_numpy(TARGETS).reshape(-1), **options),
        (TARGETS, ignore_index, smoothing),
    )


def feed_forward(activation, draw):
    def theirs(x, w1, b1, w2, b2):
        a = getattr(nn, activation)(linear(x, w1, b1))
        return linear(a if draw is None else dropped(a), w2, b2)

    shapes = [TOKEN, (4, 7), (7,), (7, 4), VECTOR]
    return Case(f"feed_forward, {activation}, {'no ' * (draw is None)}dropout", shapes, theirs, (activation, draw))


def post_norm(x, f, gamma, beta):
    return norm(x + dropped(f), gamma, beta, 1e-3)


def add_norm(x, f, gamma, beta):
    total = x + dropped(f)
    return total, norm(total, gamma, beta, 1e-3)


CASES = [
    Case("linear", [TOKEN, (4, 5), (5,)], linear),
    Case("relu", [TOKEN], nn.relu),
    Case("gelu", [(50, 40)], nn.gelu),
    Case("softmax", [(2, 3, 7)], lambda x: x.softmax(-1)),
    Case("softmax, some visible", [(2, 6, 7)],
         lambda x: x.masked_fill(~torch.from_numpy(CAUSAL), -torch.inf).softmax(-1), (CAUSAL,)),
    Case("dropout", [TOKEN], dropped, (DRAW,)),
    Case("embedding", [(5, 4)],
         lambda table: nn.embedding(torch.from_numpy(TOKENS), table) * 2.5, (2.5,), (TOKENS,)),
    Case("learned_positions", [TOKEN, (9, 4)], lambda x, table: x + table[2:8], (2,)),
    Case("layer_norm", [TOKEN, VECTOR, VECTOR], norm),
    Case("layer_norm, another eps", [TOKEN, VECTOR, VECTOR], lambda *inputs: norm(*inputs, 0.5), (0.5,)),
    Case("residual", [TOKEN, TOKEN], lambda x, f: x + dropped(f), (DRAW,)),
    Case("post_norm", [TOKEN, TOKEN, VECTOR, VECTOR], post_norm, (1e-3, DRAW)),
    Case("add_norm", [TOKEN, TOKEN, VECTOR, VECTOR], add_norm, (1e-3, DRAW)),
    attention("all visible", AttentionMask(), None),
    attention("causal", AttentionMask(causal=True), CAUSAL),
    attention("padding", AttentionMask(key_visible=VISIBLE), VISIBLE[:, None, None, :]),
    attention("causal, padding", AttentionMask(key_visible=VISIBLE, causal=True), VISIBLE[:, None, None, :] & CAUSAL),
    attention("causal from an offset", AttentionMask(causal=True, query_offset=2), CAUSAL_FROM_2),
    attention("window", AttentionMask(window=3), NEAR),
    attention("causal window", AttentionMask(causal=True, window=3), NEAR & CAUSAL),
    Case("attention, dropout", QKV, dropped_attention, (AttentionMask(causal=True), DRAW)),
    *(feed_forward(activation, draw) for activation in ("relu", "gelu") for draw in (None, DRAW)),
    *(cross_entropy(ignored, smoothing) for ignored in (0, None) for smoothing in (0.0, 0.1)),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.usefixtures("comparison")  # on one thread
def test_outputs_and_gradients(case):
    rng = np.random.default_rng(1)
    inputs = [2 * rng.normal(size=shape) for shape in case.shapes]
    tensors = [torch.tensor(x, requires_grad=True) for x in inputs]
    forward, backward = (getattr(F, f"{case.name.partition(',')[0]}_{way}") for way in ("forward", "backward"))
    outputs, cache = forward(*case.tokens, *inputs, *case.options)
    expected = case.theirs(*tensors)
    several = isinstance(outputs, tuple)
    ours, others = (y if several else (y,) for y in (outputs, expected))
    upstream = [rng.normal(size=y.shape) for y in ours]
    torch.autograd.backward(expected, [torch.tensor(dy) for dy in upstream])
    gradients = backward(tuple(upstream) if several else upstream[0], cache)
    for y, other in zip(ours, others, strict=True):
        np.testing.assert_allclose(y, other.detach().numpy(), rtol=0, atol=1e-12 * largest(y))
    for gradient, tensor in zip(gradients, tensors, strict=True):
        true = tensor.grad.numpy()
        assert largest(true) > 1e-3, "a check in which all gradients are small proves nothing"
        np.testing.assert_allclose(gradient, true, rtol=0, atol=1e-12 * largest(true))


def largest(x):
    return float(np.abs(x).max())
