"""The decoder-only model: no token sees a later one, padding has no effect, and steps equal the whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npformer.backend import Backend
from npformer.models import Decoder, DecoderConfig
from npformer.proof.catalogue import shaken

TOKENS = np.array([[3, 5, 4, 6, 2, 1], [6, 5, 2, 3, 0, 0]])
KINDS = pytest.mark.parametrize(
    "changes",
    [{}, {"positions": "rotary"}, {"positions": "relative", "norm_order": "pre"}, {"attention": "local", "window": 2},
     {"attention": "local", "stride": 2}, {"attention": "linear"}, {"norm": "batch"}, {"positions": "none"},
     {"tie_embeddings": True}],
    ids=str,
)  # fmt: skip


def made(backend: Backend, **changes) -> Decoder:
    size: dict[str, Any] = {"d_model": 8, "num_heads": 2, "d_ff": 12, "num_layers": 2, "dropout": 0.0, "max_seq_len": 8}
    model = shaken(Decoder(DecoderConfig(7, **(size | changes)), backend=backend))
    assert isinstance(model, Decoder)
    return model


@KINDS
def test_a_later_token_changes_no_earlier_logit(changes, numpy64):
    model = made(numpy64, **changes)
    logits = model(TOKENS[:1])
    for t in range(1, 6):
        other = TOKENS[:1].copy()
        other[0, t:] = 6 - other[0, t:] + (other[0, t:] == 3)
        found = model(other)
        assert np.array_equal(found[:, :t], logits[:, :t])
        assert not np.array_equal(found[:, t], logits[:, t])


@KINDS
def test_padding_changes_nothing_that_counts(changes, numpy64):
    model = made(numpy64, **changes)
    alone = model(TOKENS[1:, :4])
    np.testing.assert_allclose(model(TOKENS)[1:, :4], alone, rtol=1e-12, atol=1e-13)


@KINDS
def test_steps_equal_the_whole(changes, numpy64):
    model = made(numpy64, **changes)
    state = model.start(2, 6)
    steps = [model.step(TOKENS[:, part], state) for part in (slice(0, 2), slice(2, 3), slice(3, 6))]
    np.testing.assert_allclose(np.concatenate(steps, axis=1), model(TOKENS), rtol=1e-12, atol=1e-13)


def test_a_tied_table_gets_the_gradients_of_both_its_uses(numpy64):
    tied, untied = made(numpy64, tie_embeddings=True), made(numpy64)
    values = dict(tied.named_parameters())
    table = values["embedding.weight"].data
    for name, p in untied.named_parameters():
        p.data[...] = table.T if name == "generator.weight" else values[name].data
    dlogits = np.random.default_rng(0).normal(size=(2, 6, 7))
    for model in (tied, untied):
        _, cache = model.forward(TOKENS)
        model.backward(dlogits, cache)
    apart = {name: p.grad for name, p in untied.named_parameters()}
    assert apart["generator.weight"].any()
    assert apart["embedding.weight"].any()
    expected = apart["embedding.weight"] + apart["generator.weight"].T
    np.testing.assert_allclose(values["embedding.weight"].grad, expected, rtol=1e-11, atol=1e-13)


def test_the_weights_are_causal(numpy64):
    weights = made(numpy64).attention_weights(TOKENS)
    assert list(weights) == ["decoder.layers.0.self_attention", "decoder.layers.1.self_attention"]
    for found in weights.values():
        assert np.array_equal(found[0, 0] > 0, np.tri(6, dtype=bool))
