"""What tests break: a small model, its operations exchanged, its tokens; and parts of it that are wrong."""

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from npformer import functional as F  # noqa: N812
from npformer.backend import get_backend
from npformer.functional import ALL_VISIBLE, AttentionMask
from npformer.functional.attention import AttentionCache
from npformer.layers import EncoderLayer
from npformer.models import Transformer, TransformerConfig
from npformer.proof.catalogue import shaken
from tests.proof.functions import normal

BACKEND = get_backend("numpy", dtype="float64", kernels="plain")
X, MEMORY = normal(2, 3, 4), normal(2, 5, 4, seed=1)
HIDDEN = AttentionMask(np.array([[True] * 5, [False] * 5]))  # of the memory
SRC, TGT = np.array([[3, 1, 2, 4], [4, 2, 0, 0]]), np.array([[1, 4, 3], [1, 2, 0]])


def with_ops(**pairs):
    return replace(BACKEND, ops=replace(BACKEND.ops, **pairs))


def model(kind=Transformer, backend=BACKEND, **changes):
    size = {"d_model": 4, "num_heads": 2, "d_ff": 6, "num_encoder_layers": 1, "num_decoder_layers": 2, "dropout": 0.0}
    return shaken(kind(TransformerConfig(5, 5, **size | changes), backend=backend))


class Broken(NamedTuple):
    """Something wrong: the identity or invariant that says so, what makes it, and the inputs and options of its run."""

    claim: str
    make: Any
    inputs: tuple[Any, ...]
    options: dict[str, Any]


def broken(claim, make, *inputs, **options):
    return Broken(claim, make, inputs, options)


class NoSkip(EncoderLayer):
    """Forgets in backward that x went past the feed-forward layer too."""

    def backward(self, dy, cache):
        kept = cache.open()
        dx, df = self.join_backward(dy, None, kept.join2)
        dx = self.feed_forward.backward(df, kept.feed_forward)
        dx, df = self.join_backward(dx, None, kept.join1)
        return dx + self.self_attention.backward(df, kept.attention)


class UnmaskedMemory(Transformer):
    """Source padding is not hidden from cross-attention."""

    def _encode(self, *args):
        return super()._encode(*args)[0], ALL_VISIBLE


def attend_one_ahead(q, k, v, mask=ALL_VISIBLE, draw=None):
    """A causal mask that is off by one: the next token is visible."""
    mask = replace(mask, query_offset=mask.query_offset + 1) if mask.causal else mask
    return F.attention_forward(q, k, v, mask, draw)


def attend_minus_1e9(q, k, v, mask=ALL_VISIBLE, draw=None):
    """Hidden scores are −1e9; where all are hidden, all come out equal."""
    visible = mask.visible(q.shape[2], k.shape[2], q)
    scores = q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1])
    scores = scores if visible is None else np.where(visible, scores, -1e9)
    weights, softmax = F.softmax_forward(scores)
    dropped, dropout = F.dropout_forward(weights, draw)
    return dropped @ v, AttentionCache(q, k, v, softmax, dropout)


def root_forgotten(dy, cache):
    """The gradient of an embedding without √C."""
    return (F.embedding_backward(dy, cache)[0] / cache.scale,)


def ffn_mask_forgotten(dy, cache):
    """A feed-forward layer's gradient goes through what dropout had dropped."""
    return F.feed_forward_backward(dy, cache._replace(dropout=cache.dropout._replace(keep=None)))
