"""For each identity on parameters and wiring, and each invariant of wiring, something wrong that it catches."""

from functools import partial

import numpy as np

from npformer import functional as F  # noqa: N812
from npformer.backend import plain_pair
from npformer.check.cases.case import shaken
from npformer.functional import AttentionMask
from npformer.layers import Context, EncoderLayer, FeedForward, Layer, MultiHeadAttention, RandomKey, ScaledDotProduct
from tests.check.broken_operations import LOGITS
from tests.check.small_models import BACKEND, HIDDEN, MEMORY, SRC, TGT, X, broken, model, with_ops

KEY = RandomKey(1)
dropping = partial(model, dropout=0.2)
BLIND = AttentionMask(np.array([[True] * 3, [False] * 3]))


def heads(mechanism=None, backend=BACKEND, dropout=0.3):
    return shaken(MultiHeadAttention(4, 2, dropout=dropout, mechanism=mechanism, backend=backend))


class Flawed(ScaledDotProduct):
    """Attention whose backward multiplies dq, dk and dv by factors."""

    def __init__(self, *factors):
        self.factors = factors

    def backward(self, *args):
        *gradients, dbias = super().backward(*args)
        return (*(f * d for f, d in zip(self.factors, gradients, strict=True)), dbias)


class BetaTwice(EncoderLayer):
    """The first norm's β gets its gradient twice."""

    def backward(self, dy, cache):
        dx = super().backward(dy, cache)
        self.norm1.beta.grad *= 2
        return dx


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


def into_every_row(dy, cache):
    return (F.embedding_backward(dy, cache)[0] + 1e-9,)


def keys_moved(dout, cache):
    """A little is added to every dK, so it no longer sums to 0."""
    dq, dk, dv = F.attention_backward(dout, cache)
    return dq, dk + 1e-3 * cache.q.mean(), dv


ATTENTION = with_ops(attention=plain_pair(F.attention_forward, keys_moved))
EVERY_ROW = with_ops(embedding=plain_pair(F.embedding_forward, into_every_row))
PRE = {"norm_order": "pre", "activation": "gelu"}
LOSS = (F.cross_entropy_forward, F.cross_entropy_backward)
SCORED = (LOGITS, TGT, 0, 0.1)


def mean_of_means(logits, targets, *options):
    rows = [F.cross_entropy_forward(*row, *options) for row in zip(logits, targets, strict=True)]
    return sum(loss for loss, _ in rows) / len(rows), [cache for _, cache in rows]


def mean_of_means_backward(dloss, caches):
    return (np.stack([F.cross_entropy_backward(dloss / len(caches), cache)[0] for cache in caches]),)


TOP = {"bug": "memory-last-layer", "key": KEY}
DRAWN, UNSEEN = Context(key=KEY), Context(memory_mask=HIDDEN)

INSIDE = {
    "dk doubled": broken("heads-query-key", lambda: heads(Flawed(1, 2, 1)), X, context=DRAWN),
    "dq and dk swapped": broken("heads-query-key", heads, X, context=DRAWN, bug="attention-dq-dk-swapped"),
    "dv doubled": broken("heads-value-output", lambda: heads(Flawed(1, 1, 2)), X, context=DRAWN),
    "heads not moved back": broken("heads-value-output", heads, X, bug="heads-not-moved-back"),
    "a thousandth in dK": broken("key-bias", lambda: heads(backend=ATTENTION), X, context=DRAWN),
    "the same, deep in a model": broken("key-bias", lambda: dropping(backend=ATTENTION), SRC, TGT, key=KEY),
    "dv halved": broken("value-bias", lambda: heads(Flawed(1, 1, 0.5)), X),
    "attends to padding": broken("nothing-visible", heads, X, context=Context(BLIND), bug="softmax-minus-1e9"),
    "dropout forgotten": broken(
        "relu-units",
        lambda: shaken(FeedForward(4, 6, dropout=0.3, backend=BACKEND)),
        X,
        context=DRAWN,
        bug="dropout-no-mask",
    ),
    "the same, in a model": broken("relu-units", dropping, SRC, TGT, key=KEY, bug="dropout-no-mask"),
    "biases averaged": broken("last-bias", dropping, SRC, TGT, bug="linear-bias-mean"),
    "memory of the top layer, post": broken("norm-readers", dropping, SRC, TGT, **TOP),
    "memory of the top layer, pre": broken("norm-readers", lambda: dropping(**PRE), SRC, TGT, **TOP),
    "β of a norm counted twice": broken(
        "norm-readers", lambda: shaken(BetaTwice(4, 2, 6, norm_order="pre", backend=BACKEND)), X
    ),
    "norm without its mean": broken("stream-shift", dropping, SRC, TGT, bug="layer-norm-no-mean"),
    "√C forgotten": broken(
        "embedding-positions", lambda: dropping(positions="learned"), SRC, TGT, key=KEY, bug="embedding-no-scale"
    ),
    "into every row": broken("absent-tokens", lambda: dropping(backend=EVERY_ROW), SRC, TGT % 4),
    "source padding seen": broken("who-sees-whom", dropping, SRC, TGT, bug="cross-padding-visible"),
    "future seen": broken("who-sees-whom", dropping, SRC, TGT, bug="causal-off"),
    "memory of the top layer": broken("path-integral", dropping, SRC, TGT, **TOP),
    "generator's bias averaged": broken("adjoint", dropping, SRC, TGT, bug="linear-bias-mean"),
}
WIRING = {
    "next token visible, layer": broken(
        "causality", lambda: heads(dropout=0), X, context=Context(AttentionMask(causal=True)), bug="causal-one-ahead"
    ),
    "next token visible, model": broken("causality", model, SRC, TGT, bug="causal-one-ahead"),
    "averages over time": broken("causality", lambda: Peeks(BACKEND), X),
    "source padding seen": broken("padding-invariance", model, SRC, TGT, bug="cross-padding-visible"),
    "−1e9, model": broken("padding-invariance", model, SRC, TGT, bug="softmax-minus-1e9"),
    "−1e9, tied model": broken(
        "padding-invariance", lambda: model(tie_embeddings=True), SRC, TGT, bug="softmax-minus-1e9"
    ),
    "−1e9, layer": broken(
        "padding-invariance", lambda: heads(dropout=0), X, MEMORY, context=UNSEEN, bug="softmax-minus-1e9"
    ),
    "−1e9, operation": broken(
        "padding-invariance", lambda: (F.attention_forward, F.attention_backward),
        X[:, None], MEMORY[:, None], MEMORY[:, None], HIDDEN, bug="softmax-minus-1e9"
    ),
    "by place in the batch": broken("batch-order", lambda: ByPlaceInBatch(BACKEND), X),
    "divided by the batch": broken("sequences-alone", lambda: heads(dropout=0), X, bug="softmax-over-batch"),
    "padding counted, loss": broken("ignored-tokens", lambda: LOSS, *SCORED, bug="loss-counts-padding"),
    "padding counted, model": broken("ignored-tokens", model, SRC, TGT, bug="loss-counts-padding"),
    "smoothing over ignored": broken("ignored-tokens", lambda: LOSS, *SCORED, bug="loss-smooths-padding"),
    "mean of the parts' means, loss": broken("token-mean", lambda: (mean_of_means, mean_of_means_backward), *SCORED),
    "divided by the batch, model": broken("token-mean", model, SRC, TGT, bug="loss-counts-padding"),
    "one of two gradients": broken("tying", lambda: model(tie_embeddings=True), SRC, TGT, bug="tied-one-gradient"),
}  # fmt: skip
