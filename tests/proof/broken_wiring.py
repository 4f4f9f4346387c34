"""For each invariant of wiring something broken that it catches: no check may pass whatever it is given."""

import numpy as np

from npformer import functional as F  # noqa: N812
from npformer.backend import Pair, plain_pair
from npformer.functional import AttentionMask
from npformer.layers import Embedding, Layer, MultiHeadAttention
from npformer.models import Transformer
from npformer.proof.catalogue import shaken
from tests.proof.functions import normal
from tests.proof.small_models import (
    BACKEND,
    HIDDEN,
    MEMORY,
    SRC,
    TGT,
    UnmaskedMemory,
    X,
    attend_minus_1e9,
    attend_one_ahead,
    broken,
    model,
    with_ops,
)

CAUSAL = AttentionMask(causal=True)


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


ATTEND = BACKEND.ops.attention
AHEAD, MINUS_1E9 = (with_ops(attention=Pair(f, ATTEND.backward)) for f in (attend_one_ahead, attend_minus_1e9))
OVER_ALL = (loss_over_all, loss_over_all_backward)
LOSS = (normal(2, 3, 5), TGT, 0, 0.1)
BREAKERS = {
    "next token visible, layer": broken("causality", lambda: heads(AHEAD), X, mask=CAUSAL),
    "next token visible, model": broken("causality", lambda: model(backend=AHEAD), SRC, TGT),
    "averages over time": broken("causality", lambda: Peeks(BACKEND), X),
    "source padding seen": broken("padding-invariance", lambda: model(UnmaskedMemory), SRC, TGT),
    "−1e9, model": broken("padding-invariance", lambda: model(backend=MINUS_1E9), SRC, TGT),
    "−1e9, tied model": broken("padding-invariance", lambda: model(backend=MINUS_1E9, tie_embeddings=True), SRC, TGT),
    "−1e9, layer": broken("padding-invariance", lambda: heads(MINUS_1E9), X, MEMORY, mask=HIDDEN),
    "−1e9, operation": broken(
        "padding-invariance", lambda: (attend_minus_1e9, F.attention_backward),
        X[:, None], MEMORY[:, None], MEMORY[:, None], HIDDEN
    ),
    "by place in the batch": broken("batch-order", lambda: ByPlaceInBatch(BACKEND), X),
    "divided by the batch": broken(
        "sequences-alone", lambda: heads(with_ops(attention=plain_pair(F.attention_forward, divided_by_batch))), X
    ),
    "padding counted, loss": broken("ignored-tokens", lambda: OVER_ALL, *LOSS),
    "padding counted, model": broken(
        "ignored-tokens", lambda: model(backend=with_ops(cross_entropy=plain_pair(*OVER_ALL))), SRC, TGT
    ),
    "smoothing over ignored": broken(
        "ignored-tokens", lambda: (F.cross_entropy_forward, smoothing_over_ignored), *LOSS
    ),
    "one of two gradients": broken("tying", lambda: model(KeepsOneOfTwo, tie_embeddings=True), SRC, TGT),
}  # fmt: skip
