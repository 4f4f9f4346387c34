"""Fixtures of the model tests: small models and a padded batch."""

import numpy as np
import pytest

from npformer.check.cases.case import shaken
from npformer.models import Transformer, build_model
from npformer.models.kinds import MODELS

#: Sources of unequal length; 0 is padding.
SRC = np.array([[3, 5, 4, 6, 2], [8, 6, 2, 0, 0], [4, 2, 0, 0, 0]])


@pytest.fixture
def small_model():
    """small_model(backend, of=Transformer, **changes): stacks of two layers, no gain at 1 and no bias at 0."""

    def build(backend, of=Transformer, **changes):
        stacks = ("num_encoder_layers", "num_decoder_layers") if of is Transformer else ("num_layers",)
        options = {"d_model": 8, "num_heads": 2, "d_ff": 12, "dropout": 0.0, "max_seq_len": 8}
        config = MODELS[of.__name__][1](*(9 for _ in stacks), **options | dict.fromkeys(stacks, 2) | changes)
        return shaken(build_model(config, backend=backend, seed=3))

    return build


@pytest.fixture
def batch():
    """(src (3, 5), tgt_in (3, 4), tgt_out (3, 4)); 0 is padding."""
    tgt_in = np.array([[1, 6, 4, 5], [1, 8, 7, 0], [1, 4, 0, 0]])
    tgt_out = np.array([[6, 4, 5, 2], [8, 7, 2, 0], [4, 2, 0, 0]])
    return SRC, tgt_in, tgt_out
