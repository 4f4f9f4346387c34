"""What tests break: a small model, its operations exchanged, its tokens; and parts of it that are wrong."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from npformer.backend import get_backend
from npformer.check.cases.case import shaken
from npformer.functional import AttentionMask
from npformer.layers import EncoderLayer
from npformer.models import Transformer, TransformerConfig
from tests.check.functions import normal

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
    """Something wrong: the invariant that says so, what makes it, and the inputs and options of its run.

    What is made is right where a bug of the museum is named: it is wrong as long as that is put in.
    """

    claim: str
    make: Any
    inputs: tuple[Any, ...]
    options: dict[str, Any]
    bug: str


def broken(claim, make, *inputs, bug="", **options):
    return Broken(claim, make, inputs, options, bug)


class NoSkip(EncoderLayer):
    """Forgets in backward that x went past the feed-forward layer too."""

    def backward(self, dy, cache):
        dx, df = self.join_backward(dy, None, cache.pop())
        dx = self.feed_forward.backward(df, cache.pop())
        dx, df = self.join_backward(dx, None, cache.pop())
        return dx + self.self_attention.backward(df, cache.pop())
