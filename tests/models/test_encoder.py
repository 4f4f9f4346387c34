"""The encoder-only model: its three heads, and padding that has no effect."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npformer.backend import Backend
from npformer.errors import ShapeError, TokenError
from npformer.models import Encoder, EncoderConfig
from npformer.proof.catalogue import shaken

Host = np.ndarray[Any, Any]
TOKENS = np.array([[3, 5, 4, 6, 2], [6, 5, 2, 0, 0], [4, 2, 0, 0, 0]])
KINDS = pytest.mark.parametrize(
    "changes",
    [{}, {"positions": "rotary"}, {"positions": "relative"}, {"attention": "local", "window": 2},
     {"attention": "linear"}, {"norm": "batch"}, {"positions": "none", "norm_order": "pre"}],
    ids=str,
)  # fmt: skip


def made(backend: Backend, head="tokens", **changes) -> Encoder:
    classes = None if head == "masked" else 4
    size: dict[str, Any] = {"d_model": 8, "num_heads": 2, "d_ff": 12, "num_layers": 2, "dropout": 0.0, "max_seq_len": 8}
    model = shaken(Encoder(EncoderConfig(7, head=head, num_classes=classes, **(size | changes)), backend=backend))
    assert isinstance(model, Encoder)
    return model


@pytest.mark.parametrize(("head", "shape"), [("sequence", (3, 4)), ("tokens", (3, 5, 4)), ("masked", (3, 5, 7))])
def test_each_head_has_its_shape_and_inference_is_forward(head, shape, numpy64):
    model = made(numpy64, head)
    logits, _ = model.forward(TOKENS)
    assert logits.shape == shape
    assert np.array_equal(model(TOKENS), logits)


def test_the_head_of_a_sequence_looks_at_its_first_token_alone(numpy64):
    """Compared to rounding: one head multiplies 3 rows and the other 15, and a row's last bits hang on that."""
    of_all, of_first = made(numpy64, "tokens"), made(numpy64, "sequence")
    expected, all_cache = of_all.forward(TOKENS)
    logits, cache = of_first.forward(TOKENS)
    np.testing.assert_allclose(logits, expected[:, 0], rtol=1e-12, atol=1e-13)
    dlogits = np.random.default_rng(0).normal(size=logits.shape)
    of_first.backward(dlogits, cache)
    everywhere = np.zeros_like(expected)
    everywhere[:, 0] = dlogits
    of_all.backward(everywhere, all_cache)
    for (name, one), (_, other) in zip(of_first.named_parameters(), of_all.named_parameters(), strict=True):
        np.testing.assert_allclose(one.grad, other.grad, rtol=1e-11, atol=1e-13, err_msg=name)


@KINDS
def test_padding_changes_nothing_that_counts(changes, numpy64):
    model = made(numpy64, **changes)
    real = TOKENS != 0
    longer = np.pad(TOKENS, ((0, 0), (0, 3)))
    np.testing.assert_allclose(model(longer)[:, :5][real], model(TOKENS)[real], rtol=1e-12, atol=1e-13)
    found = []
    for tokens in (TOKENS, longer):
        model.zero_grad()
        logits, cache = model.forward(tokens)
        dlogits = np.zeros_like(logits)
        dlogits[:, :5][real] = np.random.default_rng(0).normal(size=(int(real.sum()), 4))
        model.backward(dlogits, cache)
        found.append({name: p.grad.copy() for name, p in model.named_parameters()})
    for name, gradient in found[0].items():
        np.testing.assert_allclose(found[1][name], gradient, rtol=1e-9, atol=1e-11, err_msg=name)
    model.embedding.weight.data[0] = 1e3
    np.testing.assert_allclose(model(longer)[:, :5][real], model(TOKENS)[real], rtol=1e-12, atol=1e-13)


@KINDS
def test_every_token_is_seen_from_every_other(changes, numpy64):
    reach = 3 if changes.get("attention") == "local" else 5  # two layers of a window of 2
    model = made(numpy64, **changes)
    for at in range(5):
        other = TOKENS[:1].copy()
        other[0, at] = 1
        moved = np.any(model(other) != model(TOKENS[:1]), axis=(0, 2))
        assert moved.tolist() == [abs(t - at) < reach for t in range(5)]


def test_weights_have_names_and_sum_to_1(numpy64):
    weights = made(numpy64).attention_weights(TOKENS)
    assert list(weights) == ["encoder.layers.0.self_attention", "encoder.layers.1.self_attention"]
    for found in weights.values():
        np.testing.assert_allclose(found.sum(-1), 1, rtol=1e-12)
        assert not found[:, :, :, :].swapaxes(1, 3)[TOKENS == 0].any()


def test_tokens_that_make_no_sense_are_refused(numpy64):
    model = made(numpy64)
    with pytest.raises(TokenError, match=r"^tokens\[0, 1\]: expected a token id with 0 <= id < 7, got 7"):
        model([[1, 7]])
    with pytest.raises(ShapeError, match=r"^tokens: expected \(B, T\), a batch of token ids, got \(2,\)"):
        model([1, 2])
