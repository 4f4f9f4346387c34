"""A model whose sizes four does not divide, with the same numbers for all kernels."""

import numpy as np

from npformer.backend import get_backend
from npformer.check.cases.case import shaken
from npformer.models import Transformer, TransformerConfig

#: Texts of unequal length (B, 5), with pads in the middle of one.
SOURCES = np.array(
    [[3, 5, 4, 6, 2], [8, 6, 2, 0, 0], [4, 2, 0, 0, 0], [7, 7, 0, 2, 2], [1, 5, 5, 8, 2], [2, 8, 1, 0, 0]]
)


def small_model(kernels, dtype="float64", encoders=1, decoders=1, **changes):
    """So many layers on either side; for decoding steps it may be shared by two threads."""
    options = {"d_model": 15, "num_heads": 3, "d_ff": 21, "num_encoder_layers": encoders} | changes
    backend = get_backend("numpy", dtype=dtype, kernels=kernels, threads=2)
    config = TransformerConfig(9, 9, **({"num_decoder_layers": decoders} | options))
    return shaken(Transformer(config, backend=backend, seed=2))


def part_of(model, path):
    """The layer or parameter at a dotted path; whole numbers are places in a list."""
    for name in path.split("."):
        model = model[int(name)] if name.isdigit() else getattr(model, name)
    return model
