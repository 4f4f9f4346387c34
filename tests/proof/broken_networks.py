"""For each identity on parameters and wiring a wrong layer or network that it catches."""

from functools import partial

import numpy as np

from npformer import functional as F  # noqa: N812
from npformer.backend import plain_pair
from npformer.functional import AttentionMask
from npformer.layers import (
    DecoderStack,
    EncoderLayer,
    FeedForward,
    MultiHeadAttention,
    RandomKey,
    ScaledDotProduct,
)
from npformer.layers.call_tree import child
from npformer.models import Transformer
from npformer.models.token_input import embed
from npformer.proof.catalogue import shaken
from tests.proof.broken_operations import norm_with
from tests.proof.small_models import (
    BACKEND,
    SRC,
    TGT,
    UnmaskedMemory,
    X,
    broken,
    ffn_mask_forgotten,
    root_forgotten,
    with_ops,
)
from tests.proof.small_models import model as small_model

KEY = RandomKey(1)
model = partial(small_model, dropout=0.2)
BLIND = AttentionMask(np.array([[True] * 3, [False] * 3]))


def heads(mechanism=None, backend=BACKEND):
    return shaken(MultiHeadAttention(4, 2, dropout=0.3, mechanism=mechanism, backend=backend))


class Flawed(ScaledDotProduct):
    """Attention whose backward multiplies dq, dk and dv by factors."""

    def __init__(self, *factors):
        self.factors = factors

    def backward(self, *args):
        *gradients, dbias = super().backward(*args)
        return (*(f * d for f, d in zip(self.factors, gradients, strict=True)), dbias)


class Swapped(ScaledDotProduct):
    """dq and dk in the wrong order; in self-attention the shapes still fit."""

    def backward(self, *args):
        dq, dk, dv, dbias = super().backward(*args)
        return dk, dq, dv, dbias


class Uniform(ScaledDotProduct):
    """A query that sees nothing attends to everything, as with −1e9."""

    def forward(self, ops, q, k, v, mask, draw, bias):
        blind = ~mask.key_visible.any(axis=1, keepdims=True)
        return super().forward(ops, q, k, v, AttentionMask(mask.key_visible | blind), draw, bias)


class HeadsNotMovedBack(MultiHeadAttention):
    """The heads' gradient is reshaped without moving the head axis: right shape, wrong place."""

    def backward(self, dy, cache):
        of_x, of_memory, _, _, heads, output = cache.open()
        dmerged = self.output.backward(dy, output)
        batch, length, width = dmerged.shape
        wrong = dmerged.reshape(batch, self.num_heads, length, width // self.num_heads)
        *parts, _ = self.mechanism.backward(self.ops, wrong, heads)
        dq, dk, dv = map(F.merge_heads, parts)
        return self._project_backward(dq, dk, dv, of_x, of_memory)


class OnlyTheTopLayer(DecoderStack):
    """The memory's gradient of the last layer alone, not the sum over layers."""

    def backward(self, dy, cache):
        dmemory = None
        dx = dy if self.norm is None else self.norm.backward(dy, cache.pop())
        for layer in reversed(self.layers):
            dx, from_layer = layer.backward(dx, cache.pop())
            dmemory = from_layer if dmemory is None else dmemory
        return dx, dmemory


class BetaTwice(EncoderLayer):
    """The first norm's β gets its gradient twice."""

    def backward(self, dy, cache):
        dx = super().backward(dy, cache)
        self.norm1.beta.grad *= 2
        return dx


def wrong_stack(**changes):
    made = model(**changes)
    made.decoder.__class__ = OnlyTheTopLayer  # type: ignore[attr-defined]
    return made


class FutureVisible(Transformer):
    def _decode(self, cache, tgt_in, memory, memory_mask, key, recorder):
        real = AttentionMask(tgt_in != self.config.pad_id)
        x = embed(cache, self.tgt_embedding, self.tgt_positions, self.dropout, tgt_in, None)
        h = cache.run(self.decoder, x, memory, mask=real, memory_mask=memory_mask, recorder=child(recorder, "decoder"))
        return cache.run(self.generator, h)


def no_mean(dy, cache):
    """Post-LN whose norm forgets the mean term."""
    dtotal, dgamma, dbeta = norm_with(mean=False)(dy, cache.norm)
    return *F.residual_backward(dtotal, cache.residual), dgamma, dbeta


def into_every_row(dy, cache):
    return (F.embedding_backward(dy, cache)[0] + 1e-9,)


def bias_over_batch(dy, cache):
    dx, dweight, dbias = F.linear_backward(dy, cache)
    return dx, dweight, dbias / len(dy)


def keys_moved(dout, cache):
    """A little is added to every dK, so it no longer sums to 0."""
    dq, dk, dv = F.attention_backward(dout, cache)
    return dq, dk + 1e-3 * cache.q.mean(), dv


ATTENTION = with_ops(attention=plain_pair(F.attention_forward, keys_moved))
POST_NORM = with_ops(post_norm=plain_pair(F.post_norm_forward, no_mean))
ROOT = with_ops(embedding=plain_pair(F.embedding_forward, root_forgotten))
EVERY_ROW = with_ops(embedding=plain_pair(F.embedding_forward, into_every_row))
FORGOTTEN = with_ops(feed_forward=plain_pair(F.feed_forward_forward, ffn_mask_forgotten))
BIAS = with_ops(linear=plain_pair(F.linear_forward, bias_over_batch))
PRE = {"norm_order": "pre", "activation": "gelu"}

BREAKERS = {
    "dk doubled": broken("heads-query-key", lambda: heads(Flawed(1, 2, 1)), X, key=KEY),
    "dq and dk swapped": broken("heads-query-key", lambda: heads(Swapped()), X, key=KEY),
    "dv doubled": broken("heads-value-output", lambda: heads(Flawed(1, 1, 2)), X, key=KEY),
    "heads not moved back": broken("heads-value-output", lambda: shaken(HeadsNotMovedBack(4, 2, backend=BACKEND)), X),
    "a thousandth in dK": broken("key-bias", lambda: heads(backend=ATTENTION), X),
    "the same, deep in a model": broken("key-bias", lambda: model(backend=ATTENTION), SRC, TGT, key=KEY),
    "dv halved": broken("value-bias", lambda: heads(Flawed(1, 1, 0.5)), X),
    "attends to padding": broken("nothing-visible", lambda: heads(Uniform()), X, mask=BLIND),
    "dropout forgotten": broken(
        "relu-units", lambda: shaken(FeedForward(4, 6, dropout=0.3, backend=FORGOTTEN)), X, key=KEY
    ),
    "the same, in a model": broken("relu-units", lambda: model(backend=FORGOTTEN), SRC, TGT, key=KEY),
    "biases over the batch": broken("last-bias", lambda: model(backend=BIAS), SRC, TGT),
    "memory of the top layer, post": broken("norm-readers", wrong_stack, SRC, TGT, key=KEY),
    "memory of the top layer, pre": broken("norm-readers", lambda: wrong_stack(**PRE), SRC, TGT, key=KEY),
    "β of a norm counted twice": broken(
        "norm-readers", lambda: shaken(BetaTwice(4, 2, 6, norm_order="pre", backend=BACKEND)), X
    ),
    "norm without its mean": broken("stream-shift", lambda: model(backend=POST_NORM), SRC, TGT),
    "√C forgotten": broken("embedding-positions", lambda: model(backend=ROOT, positions="learned"), SRC, TGT, key=KEY),
    "into every row": broken("absent-tokens", lambda: model(backend=EVERY_ROW), SRC, TGT % 4),
    "source padding seen": broken("who-sees-whom", lambda: model(UnmaskedMemory), SRC, TGT),
    "future seen": broken("who-sees-whom", lambda: model(FutureVisible), SRC, TGT),
    "memory of the top layer": broken("path-integral", wrong_stack, SRC, TGT, key=KEY),
    "generator's bias over the batch": broken("adjoint", lambda: model(backend=BIAS), SRC, TGT),
}
