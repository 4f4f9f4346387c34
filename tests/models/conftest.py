"""Fixtures of the model tests: small models, a padded batch, and one pass forward and backward."""

import numpy as np
import pytest

from npformer.check.cases.case import shaken
from npformer.functional import cross_entropy_backward, cross_entropy_forward
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


@pytest.fixture
def forward_backward():
    """A function that returns (logits, loss, gradients by name) of a model on a batch, whose targets are its last."""

    def run(model, *batch):
        model.zero_grad()
        logits, cache = model.forward(*batch[:-1])
        loss, loss_cache = cross_entropy_forward(logits, batch[-1])
        (dlogits,) = cross_entropy_backward(1.0, loss_cache)
        model.backward(dlogits, cache)
        return logits, float(loss), {name: p.grad.copy() for name, p in model.named_parameters()}

    return run
