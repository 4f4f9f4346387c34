"""For each invariant of wiring something wrong that it catches."""

import numpy as np

from npformer import functional as F  # noqa: N812
from npformer.check.cases.case import shaken
from npformer.functional import AttentionMask
from npformer.layers import Context, Layer, MultiHeadAttention
from tests.check.functions import normal
from tests.check.small_models import BACKEND, HIDDEN, MEMORY, SRC, TGT, X, broken, model


def heads():
    return shaken(MultiHeadAttention(4, 2, backend=BACKEND))


class ByPlaceInBatch(Layer):
    """Sequence b is multiplied by b + 1."""

    def forward(self, x):
        weight = 1.0 + np.arange(len(x))[:, None, None]
        return x * weight, weight

    def backward(self, dy, cache):
        return dy * cache


LOSS = (F.cross_entropy_forward, F.cross_entropy_backward)
SCORED = (normal(2, 3, 5), TGT, 0, 0.1)


def mean_of_means(logits, targets, *options):
    rows = [F.cross_entropy_forward(*row, *options) for row in zip(logits, targets, strict=True)]
    return sum(loss for loss, _ in rows) / len(rows), [cache for _, cache in rows]


def mean_of_means_backward(dloss, caches):
    return (np.stack([F.cross_entropy_backward(dloss / len(caches), cache)[0] for cache in caches]),)


WIRING = {
    "next token visible, layer": broken(
        "causality", heads, X, context=Context(AttentionMask(causal=True)), bug="causal-one-ahead"
    ),
    "next token visible, model": broken("causality", model, SRC, TGT, bug="causal-one-ahead"),

    "source padding seen": broken("padding-invariance", model, SRC, TGT, bug="cross-padding-visible"),
    "−1e9, model": broken("padding-invariance", model, SRC, TGT, bug="softmax-minus-1e9"),

    "−1e9, operation": broken(
        "padding-invariance", lambda: (F.attention_forward, F.attention_backward),
        X[:, None], MEMORY[:, None], MEMORY[:, None], HIDDEN, bug="softmax-minus-1e9"
    ),
    "by place in the batch": broken("batch-order", lambda: ByPlaceInBatch(BACKEND), X),
    "divided by the batch": broken("sequences-alone", heads, X, bug="softmax-over-batch"),
    "padding counted, loss": broken("ignored-tokens", lambda: LOSS, *SCORED, bug="loss-counts-padding"),
    "smoothing over ignored": broken("ignored-tokens", model, SRC, TGT, bug="loss-smooths-padding"),
    "mean of the parts' means, loss": broken("token-mean", lambda: (mean_of_means, mean_of_means_backward), *SCORED),
    "divided by the batch, model": broken("token-mean", model, SRC, TGT, bug="loss-counts-padding"),
    "one of two gradients": broken("tying", lambda: model(tie_embeddings=True), SRC, TGT, bug="tied-one-gradient"),
}  # fmt: skip
