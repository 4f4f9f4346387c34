"""Fixtures of the model tests: small Transformers, a padded batch, and one pass forward and backward."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npformer.backend import Backend
from npformer.functional import cross_entropy_backward, cross_entropy_forward
from npformer.models import Transformer, TransformerConfig
from npformer.proof.catalogue import shaken

Host = np.ndarray[Any, Any]


@pytest.fixture
def small_model():
    """small_model(backend, **changes): two layers each way, no gain at 1 and no bias at 0."""

    def build(backend: Backend, **changes) -> Transformer:
        options = {"d_model": 8, "num_heads": 2, "num_encoder_layers": 2, "num_decoder_layers": 2, "d_ff": 12}
        config = TransformerConfig(9, 9, **(options | {"dropout": 0.0, "max_seq_len": 8} | changes))
        model = shaken(Transformer(config, backend=backend, seed=3))
        assert isinstance(model, Transformer)
        return model

    return build


@pytest.fixture
def batch():
    """(src (3, 5), tgt_in (3, 4), tgt_out (3, 4)); 0 is padding."""
    src = np.array([[3, 5, 4, 6, 2], [8, 6, 2, 0, 0], [4, 2, 0, 0, 0]])
    tgt_in = np.array([[1, 6, 4, 5], [1, 8, 7, 0], [1, 4, 0, 0]])
    tgt_out = np.array([[6, 4, 5, 2], [8, 7, 2, 0], [4, 2, 0, 0]])
    return src, tgt_in, tgt_out


@pytest.fixture
def forward_backward():
    """A function that returns (logits, loss, gradients by name) of a model on a batch."""

    def run(model: Transformer, src: Host, tgt_in: Host, tgt_out: Host) -> tuple[Host, float, dict[str, Host]]:
        model.zero_grad()
        logits, cache = model.forward(src, tgt_in)
        loss, loss_cache = cross_entropy_forward(logits, tgt_out)
        (dlogits,) = cross_entropy_backward(1.0, loss_cache)
        model.backward(dlogits, cache)
        return logits, float(loss), {name: p.grad.copy() for name, p in model.named_parameters()}

    return run
