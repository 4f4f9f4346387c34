"""Steps of the Transformer and the Decoder, with every mechanism and kind of positions, against the whole prefix."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from npformer.backend import Backend
from npformer.models import Decoder, DecoderConfig, Transformer, TransformerConfig
from npformer.proof.catalogue import shaken

SRC = np.array([[3, 5, 4, 6, 2], [8, 6, 2, 0, 0], [4, 2, 0, 0, 0]])
MAX_LEN = 9
TOLERANCE = 1e-12
MECHANISMS: list[dict[str, Any]] = [
    {}, {"attention": "local", "window": 2}, {"attention": "local", "stride": 3},
    {"attention": "local", "window": 2, "stride": 3}, {"attention": "linear"},
]  # fmt: skip
KINDS = [
    {"positions": positions} | mechanism
    for positions in ("sinusoidal", "learned", "rotary", "relative", "none")
    for mechanism in MECHANISMS
    if positions != "relative" or not mechanism
] + [{"norm": "batch"}, {"norm": "batch", "attention": "linear", "norm_order": "pre"}]
MODELS = pytest.mark.parametrize("of", [Transformer, Decoder])


def build(of: type, backend: Backend, kind: dict[str, Any]):
    options = {"d_model": 8, "num_heads": 2, "d_ff": 12, "max_seq_len": 12, "dropout": 0.0} | kind
    if of is Decoder:
        return shaken(Decoder(DecoderConfig(9, num_layers=2, **options), backend=backend, seed=3))
    layers = {"num_encoder_layers": 2, "num_decoder_layers": 2}
    return shaken(Transformer(TransformerConfig(9, 9, **layers, **options), backend=backend, seed=3))


def start(model):
    return model.start(3, MAX_LEN) if isinstance(model, Decoder) else model.start(SRC, MAX_LEN)


def logits(model, tokens, src=SRC):
    """(B, T, V) of the whole prefix."""
    return model.backend.host(model(tokens) if isinstance(model, Decoder) else model(src, tokens))


def targets():
    tokens = np.random.default_rng(0).integers(0, 9, (3, MAX_LEN))
    tokens[-1, :2] = 0
    return tokens


@MODELS
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_every_step_equals_the_whole_prefix(of, kind, any64):
    model, tokens = build(of, any64, kind), targets()
    for cuts in (range(MAX_LEN + 1), (0, 3, 4, 6, 9)):
        state = start(model)
        for first, last in itertools.pairwise(cuts):
            found = any64.host(model.step(tokens[:, first:last], state))
            expected = logits(model, tokens[:, :last])[:, first:]
            scale = max(1.0, np.max(np.abs(expected)))  # statistics that nobody learned let logits grow to hundreds
            assert np.max(np.abs(found - expected)) < TOLERANCE * scale, (first, last)


@MODELS
@pytest.mark.parametrize("kind", KINDS[:6:5] + KINDS[4:5], ids=str)
@pytest.mark.parametrize("name", ["numpy64", "strict64"])
def test_rows_continue_from_their_parents(of, kind, name, request):
    """A beam: first each source twice, then rows that change places with their siblings."""
    backend: Backend = request.getfixturevalue(name)
    model, tokens = build(of, backend, kind), targets()
    state = start(model)
    model.step(tokens[:, :2], state)
    rows = np.array([0, 0, 1, 1, 2, 2])
    state, prefix, rng = state.select(rows), tokens[rows, :2], np.random.default_rng(1)
    for places in ([0, 1, 2, 3, 4, 5], [1, 0, 2, 2, 5, 5], [1, 1, 3, 2, 4, 5], [0, 0, 2, 2, 5, 4]):
        state.reorder(places)
        new = rng.integers(1, 9, 6)
        prefix = np.hstack([prefix[places], new[:, None]])
        found = backend.host(model.step(new, state))
        assert np.max(np.abs(found - logits(model, prefix, SRC[rows])[:, -1])) < TOLERANCE


@MODELS
@pytest.mark.parametrize("kind", [{}, {"attention": "linear"}], ids=str)
def test_a_step_that_breaks_off_half_way_can_be_taken_again(of, kind, any64, monkeypatch):
    model, tokens = build(of, any64, kind), targets()
    state = start(model)
    model.step(tokens[:, 0], state)
    with monkeypatch.context() as patch:
        patch.setattr(model.decoder.layers[1], "step", lambda *given, **masks: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            model.step(np.full((3, 2), 8), state)
    found = any64.host(model.step(tokens[:, 1], state))
    assert np.max(np.abs(found - logits(model, tokens[:, :2])[:, -1])) < TOLERANCE
