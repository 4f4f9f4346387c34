"""What tests break: a small model, its operations exchanged, its tokens; and a layer and a model that are wrong."""

from dataclasses import replace

import numpy as np

from npformer.backend import get_backend
from npformer.functional import ALL_VISIBLE
from npformer.layers import EncoderLayer
from npformer.models import Transformer, TransformerConfig
from npformer.proof.catalogue import shaken

BACKEND = get_backend("numpy", dtype="float64", kernels="plain")
SRC, TGT = np.array([[3, 1, 2, 4], [4, 2, 0, 0]]), np.array([[1, 4, 3], [1, 2, 0]])


def with_ops(**pairs):
    return replace(BACKEND, ops=replace(BACKEND.ops, **pairs))


def model(kind=Transformer, backend=BACKEND, **changes):
    size = {"d_model": 4, "num_heads": 2, "d_ff": 6, "num_encoder_layers": 1, "num_decoder_layers": 2, "dropout": 0.0}
    return shaken(kind(TransformerConfig(5, 5, **size | changes), backend=backend))


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
