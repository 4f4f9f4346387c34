"""Fixtures of the decoding tests: small models with varied outputs, and scores of their texts computed again."""

import numpy as np
import pytest

from npformer.models import Decoder, DecoderConfig, Transformer, TransformerConfig
from npformer.proof.catalogue import shaken

SIZES = {"d_model": 8, "num_heads": 2, "d_ff": 12, "max_seq_len": 16, "dropout": 0.0, "init": "xavier"}


@pytest.fixture
def transformer():
    """transformer(backend, seed=1, **changes), nine tokens on each side."""

    def build(backend, seed=1, **changes):
        options = {"num_encoder_layers": 1, "num_decoder_layers": 1} | SIZES | changes
        model = shaken(Transformer(TransformerConfig(9, 9, **options), backend=backend, seed=seed))
        assert isinstance(model, Transformer)
        return model

    return build


@pytest.fixture
def decoder():
    """decoder(backend, seed=1, **changes), nine tokens, two layers."""

    def build(backend, seed=1, **changes):
        config = DecoderConfig(9, **({"num_layers": 2} | SIZES | changes))
        model = shaken(Decoder(config, backend=backend, seed=seed))
        assert isinstance(model, Decoder)
        return model

    return build


@pytest.fixture
def log_probability():
    """log_probability(model, given, tokens): of a whole text at once, without padding; a prompt counts nothing."""

    def score(model, given, tokens):
        given, tokens = [int(t) for t in given if t], [int(t) for t in tokens]
        if isinstance(model, Decoder):
            logits, first = model.backend.host(model([tokens[:-1]]))[0], len(given)
            logits, tokens = logits[first - 1 :], tokens[first:]
        else:
            logits = model.backend.host(model([given], [[1, *tokens[:-1]]]))[0]
        peak = logits.max(axis=-1, keepdims=True)
        log_p = logits - peak - np.log(np.exp(logits - peak).sum(axis=-1, keepdims=True))
        return float(log_p[np.arange(len(tokens)), tokens].sum())

    return score
