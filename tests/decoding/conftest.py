"""Fixtures of the decoding tests: small models with varied outputs, and scores of their texts computed again."""

import numpy as np
import pytest

from npformer.check.cases.case import shaken
from npformer.models import Decoder, DecoderConfig, Transformer, TransformerConfig

#: Sources, or prompts, of unequal length.
SRC = np.array([[3, 5, 4, 6, 2], [8, 6, 2, 0, 0], [4, 2, 0, 0, 0], [7, 7, 7, 2, 0], [6, 3, 0, 0, 0]])
SIZES = {"d_model": 8, "num_heads": 2, "d_ff": 12, "max_seq_len": 16, "dropout": 0.0, "init": "xavier"}


def whole(row):
    """A row without its padding."""
    return np.trim_zeros(np.asarray(row), "b").tolist()


def by_full_recomputation(model, row, max_len, eos_id=2):
    """What greedy decoding gives for one row without its padding: the whole model anew for every token."""
    prefix = whole(row)
    tokens, before = (prefix, []) if isinstance(model, Decoder) else ([1], [[prefix]])
    first, most = len(tokens), max_len + len(before)
    while len(tokens) < most and (len(tokens) == first or tokens[-1] != eos_id):
        logits = model.backend.host(model(*before, [tokens]))
        tokens.append(int(np.argmax(logits[0, -1])))
    return tokens[len(before) :]


def rows_of_steps(model, monkeypatch):
    """A list that gets the number of rows of each step of the model."""
    sizes, step = [], model.step
    monkeypatch.setattr(model, "step", lambda tokens, state: sizes.append(len(tokens)) or step(tokens, state))
    return sizes


@pytest.fixture
def transformer():
    """transformer(backend, seed=1, **changes), nine tokens on each side."""

    def build(backend, seed=1, **changes):
        options = {"num_encoder_layers": 1, "num_decoder_layers": 1} | SIZES | changes
        return shaken(Transformer(TransformerConfig(9, 9, **options), backend=backend, seed=seed))

    return build


@pytest.fixture
def decoder():
    """decoder(backend, seed=1, **changes), nine tokens, two layers."""

    def build(backend, seed=1, **changes):
        config = DecoderConfig(9, **({"num_layers": 2} | SIZES | changes))
        return shaken(Decoder(config, backend=backend, seed=seed))

    return build


@pytest.fixture
def log_probability():
    """log_probability(model, given, tokens): of a whole text at once, without padding; a prompt counts nothing."""

    def score(model, source, tokens):
        source, tokens = [int(t) for t in source if t], [int(t) for t in tokens]
        if isinstance(model, Decoder):
            logits, first = model.backend.host(model([tokens[:-1]]))[0], len(source)
            logits, tokens = logits[first - 1 :], tokens[first:]
        else:
            logits = model.backend.host(model([source], [[1, *tokens[:-1]]]))[0]
        peak = logits.max(axis=-1, keepdims=True)
        log_p = logits - peak - np.log(np.exp(logits - peak).sum(axis=-1, keepdims=True))
        return float(log_p[np.arange(len(tokens)), tokens].sum())

    return score
