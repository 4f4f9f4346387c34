"""For each invariant of wiring something broken that it catches: no check may pass whatever it is given."""

import math
from dataclasses import replace

import numpy as np
import pytest

from npformer import functional as F  # noqa: N812
from npformer.backend import Pair, plain_pair
from npformer.functional import ALL_VISIBLE, AttentionMask
from npformer.functional.attention import AttentionCache
from npformer.layers import Embedding, Layer, MultiHeadAttention
from npformer.models import Transformer
from npformer.proof.catalogue import shaken
from npformer.proof.invariants import INVARIANTS
from tests.proof.small_models import BACKEND, SRC, TGT, UnmaskedMemory, model, with_ops

OPS = BACKEND.ops
rng = np.random.default_rng(0)
X, MEMORY = rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 5, 4))
CAUSAL = AttentionMask(causal=True)


def attend_one_ahead(q, k, v, mask=ALL_VISIBLE, draw=None):
    """A causal mask that is off by one: the next token is visible."""
    mask = replace(mask, query_offset=mask.query_offset + 1) if mask.causal else mask
    return F.attention_forward(q, k, v, mask, draw)


def attend_minus_1e9(q, k, v, mask=ALL_VISIBLE, draw=None):
    """Hidden scores get −1e9 added; where all are hidden, all come out equal."""
    visible = mask.visible(q.shape[2], k.shape[2], q)
    scores = q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1])
    scores = scores if visible is None else np.where(visible, scores, -1e9)
    weights, softmax = F.softmax_forward(scores)
    dropped, dropout = F.dropout_forward(weights, draw)
    return dropped @ v, AttentionCache(q, k, v, softmax, dropout)


def divided_by_batch(dout, cache):
    dq, dk, dv = F.attention_backward(dout, cache)
    return dq / len(dq), dk / len(dk), dv


def loss_over_all(logits, targets, ignore_index=0, label_smoothing=0.0):
    """The mean over B·T: padding is counted."""
    loss, cache = F.cross_entropy_forward(logits, targets, ignore_index, label_smoothing)
    share = np.sum(targets != ignore_index) / targets.size
    return loss * share, (cache, share)


def loss_over_all_backward(dloss, cache):
    return F.cross_entropy_backward(dloss * cache[1], cache[0])


def smoothing_over_ignored(dloss, cache):
    """Where nothing should come back, the smoothing's part does."""
    return ((cache.p - cache.q) * np.where(cache.counted, dloss, 1e-3 * dloss) / cache.num_counted,)


class Peeks(Layer):
    """Says that it is causal and averages over all of time."""

    causal = True

    def forward(self, x):
        return x + x.mean(axis=1, keepdims=True), x.shape

    def backward(self, dy, cache):
        return dy + dy.mean(axis=1, keepdims=True)


class ByPlaceInBatch(Layer):
    """Sequence b is multiplied by b + 1."""

    def forward(self, x):
        weight = 1.0 + np.arange(len(x))[:, None, None]
        return x * weight, weight

    def backward(self, dy, cache):
        return dy * cache


class KeepsOneOfTwo(Transformer):
    """The source embedding's gradient replaces what stood there."""

    def __init__(self, config, **options):
        super().__init__(config, **options)
        self.src_embedding.__class__ = Replaces


class Replaces(Embedding):
    def backward(self, dy, cache):
        self.weight.grad[...] = 0
        super().backward(dy, cache)


def heads(backend=BACKEND):
    return shaken(MultiHeadAttention(4, 2, backend=backend))


ATTEND = OPS.attention
HIDDEN = AttentionMask(np.array([[True] * 5, [False] * 5]))
BREAKERS = {
    "next token visible, layer": (
        "causality", lambda: heads(with_ops(attention=Pair(attend_one_ahead, ATTEND.backward))), (X,), {"mask": CAUSAL}
    ),
    "next token visible, model": (
        "causality", lambda: model(backend=with_ops(attention=Pair(attend_one_ahead, ATTEND.backward))), (SRC, TGT), {}
    ),
    "averages over time": ("causality", lambda: Peeks(BACKEND), (X,), {}),
    "source padding seen": ("padding-invariance", lambda: model(UnmaskedMemory), (SRC, TGT), {}),
    "−1e9, model": (
        "padding-invariance", lambda: model(backend=with_ops(attention=Pair(attend_minus_1e9, ATTEND.backward))),
        (SRC, TGT), {}
    ),
    "−1e9, tied model": (
        "padding-invariance",
        lambda: model(backend=with_ops(attention=Pair(attend_minus_1e9, ATTEND.backward)), tie_embeddings=True),
        (SRC, TGT), {}
    ),
    "−1e9, layer": (
        "padding-invariance", lambda: heads(with_ops(attention=Pair(attend_minus_1e9, ATTEND.backward))), (X, MEMORY),
        {"mask": HIDDEN}
    ),
    "−1e9, operation": (
        "padding-invariance", lambda: (attend_minus_1e9, F.attention_backward),
        (X[:, None], MEMORY[:, None], MEMORY[:, None], HIDDEN), {}
    ),
    "by place in the batch": ("batch-order", lambda: ByPlaceInBatch(BACKEND), (X,), {}),
    "divided by the batch": (
        "sequences-alone", lambda: heads(with_ops(attention=plain_pair(F.attention_forward, divided_by_batch))),
        (X,), {}
    ),
    "padding counted, loss": (
        "ignored-tokens", lambda: (loss_over_all, loss_over_all_backward), (rng.normal(size=(2, 3, 5)), TGT, 0, 0.1), {}
    ),
    "padding counted, model": (
        "ignored-tokens",
        lambda: model(backend=with_ops(cross_entropy=plain_pair(loss_over_all, loss_over_all_backward))), (SRC, TGT), {}
    ),
    "smoothing over ignored": (
        "ignored-tokens", lambda: (F.cross_entropy_forward, smoothing_over_ignored),
        (rng.normal(size=(2, 3, 5)), TGT, 0, 0.1), {}
    ),
    "one of two gradients": ("tying", lambda: model(KeepsOneOfTwo, tie_embeddings=True), (SRC, TGT), {}),
}  # fmt: skip


def result(name, broken):
    _, make, inputs, options = BREAKERS[broken]
    return INVARIANTS[name](make(), *inputs, **options)


@pytest.mark.parametrize("broken", BREAKERS)
def test_what_is_broken_is_caught(broken):
    found = result(BREAKERS[broken][0], broken)
    assert found.fails, str(found)


def test_every_invariant_of_wiring_has_a_breaker():
    assert {name for name, *_ in BREAKERS.values()} == set(list(INVARIANTS)[:6])  # the others: bookkeeping


@pytest.mark.parametrize(
    ("broken", "holds"),
    [
        ("divided by the batch", ("linear-backward", "batch-order", "accumulation", "determinism")),
        ("next token visible, model", ("padding-invariance", "linear-backward", "sequences-alone", "tying")),
        ("one of two gradients", ("linear-backward", "causality", "ignored-tokens")),
        ("−1e9, model", ("causality", "linear-backward", "sequences-alone")),
    ],
)
def test_a_check_looks_for_one_thing(broken, holds):
    assert not [name for name in holds if result(name, broken).fails]


def test_a_violation_says_where_and_both_numbers():
    found = result("causality", "next token visible, model")
    assert "tgt_in[:, " in found.violation.where
    assert len(found.violation.place) == 3
    assert math.isfinite(found.violation.expected)
    assert found.violation.expected != found.violation.got
