"""What tests break: a small model, its operations exchanged, its tokens."""

from dataclasses import replace

import numpy as np

from npformer.backend import Backend, get_backend
from npformer.functional import ALL_VISIBLE
from npformer.models import Transformer, TransformerConfig
from npformer.proof.catalogue import shaken

BACKEND = get_backend("numpy", dtype="float64", kernels="plain")
SRC, TGT = np.array([[3, 1, 2, 4], [4, 2, 0, 0]]), np.array([[1, 4, 3], [1, 2, 0]])


def with_ops(**pairs) -> Backend:
    return replace(BACKEND, ops=replace(BACKEND.ops, **pairs))


def model(kind: type[Transformer] = Transformer, backend: Backend = BACKEND, **changes):
    size = {"d_model": 4, "num_heads": 2, "d_ff": 6, "num_encoder_layers": 1, "num_decoder_layers": 2, "dropout": 0.0}
    return shaken(kind(TransformerConfig(5, 5, **size | changes), backend=backend))


class UnmaskedMemory(Transformer):
    """Source padding is not hidden from cross-attention."""

    def _encode(self, *args):
        return super()._encode(*args)[0], ALL_VISIBLE
