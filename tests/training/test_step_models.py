"""A training step of an encoder alone and of a decoder alone, and of models whose rows look at each other."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from npformer.backend import Backend, get_backend
from npformer.errors import ShapeError, TokenError
from npformer.functional import cross_entropy_backward, cross_entropy_forward
from npformer.layers import RandomKey
from npformer.layers.batch_norm import BatchNorm, statistics_in
from npformer.models import (
    Decoder,
    DecoderConfig,
    Encoder,
    EncoderConfig,
    Model,
    Transformer,
    TransformerConfig,
    build_model,
)
from npformer.optim import Adam
from npformer.training import TrainStep

SIZES: dict[str, Any] = {"d_model": 8, "num_heads": 2, "d_ff": 12, "dropout": 0.2, "max_seq_len": 6}
TOKENS = np.array([[3, 5, 4, 6, 8, 2], [8, 2, 0, 0, 0, 0], [4, 2, 7, 0, 0, 0], [7, 2, 0, 0, 0, 0], [5, 2, 1, 0, 0, 0]])
NEXT = np.array([[5, 4, 6, 8, 2, 3], [2, 8, 0, 0, 0, 0], [2, 0, 5, 0, 0, 0], [2, 3, 0, 0, 0, 0], [2, 0, 4, 0, 0, 0]])
CLASSES = np.array([1, 3, 0, 2, 3])

CASES: dict[str, tuple[Any, np.ndarray[Any, Any]]] = {
    "sequence": (EncoderConfig(vocab_size=9, head="sequence", num_classes=4, num_layers=1, **SIZES), CLASSES),
    "tokens": (EncoderConfig(vocab_size=9, head="tokens", num_classes=9, num_layers=1, **SIZES), NEXT),
    "masked": (EncoderConfig(vocab_size=9, tie_embeddings=True, num_layers=1, **SIZES), NEXT),
    "decoder": (DecoderConfig(vocab_size=9, num_layers=2, norm_order="pre", positions="rotary", **SIZES), NEXT),
}
EVERY_CASE = pytest.mark.parametrize("case", CASES)


def step_for(model: Model, lr: float = 0.0, **options) -> TrainStep:
    return TrainStep(model, Adam(model.arena, lr=lr), seed=4, **options)


def by_hand(model, targets, key: RandomKey | None) -> tuple[float, Any]:
    """(loss, the flat gradient) of one whole batch."""
    model.zero_grad()
    logits, cache = model.forward(TOKENS, key=key)
    loss, loss_cache = cross_entropy_forward(logits, targets, 0, 0.1)
    model.backward(cross_entropy_backward(1.0, loss_cache)[0], cache)
    return float(loss), model.arena.grads.copy()


@EVERY_CASE
def test_a_step_is_forward_loss_and_backward(case, numpy64):
    config, targets = CASES[case]
    model, mirror = (build_model(config, backend=numpy64, seed=2) for _ in range(2))
    expected, gradient = by_hand(mirror, targets, RandomKey(4, 0))
    step = step_for(model, label_smoothing=0.1)
    assert float(step(TOKENS, targets)) == pytest.approx(expected, rel=1e-13)
    np.testing.assert_allclose(model.arena.grads, gradient, rtol=0, atol=1e-13 * np.max(np.abs(gradient)))


@EVERY_CASE
@pytest.mark.parametrize("options", [{"threads": 2}, {"threads": 3}, {"accumulate": 2}, {"accumulate": 5}])
def test_parts_of_a_batch_add_up(case, options, kernels):
    config, targets = CASES[case]
    config = type(config)(**(vars(config) | {"dropout": 0.0}))
    alone = build_model(config, backend=get_backend("numpy", "float64", kernels=kernels, threads=1), seed=2)
    threads = options.get("threads", 1)
    shared = build_model(config, backend=get_backend("numpy", "float64", kernels=kernels, threads=threads), seed=2)
    expected = step_for(alone)(TOKENS, targets)
    found = step_for(shared, accumulate=options.get("accumulate", 1))(TOKENS, targets)
    assert float(found) == pytest.approx(float(expected), rel=1e-12)
    scale = np.max(np.abs(alone.arena.grads))
    np.testing.assert_allclose(shared.arena.grads, alone.arena.grads, rtol=0, atol=1e-12 * scale)


@EVERY_CASE
def test_a_model_learns_one_batch_by_heart(case, any64):
    config, targets = CASES[case]
    config = type(config)(**(vars(config) | {"dropout": 0.0, "d_model": 16}))
    step = step_for(build_model(config, backend=any64, seed=2), lr=0.01)
    losses = step.many([(TOKENS, targets)] * 150)
    assert float(losses[0]) > 1
    assert float(losses[-1]) < 0.1


BAD: list[tuple[str, tuple[Any, ...], type[Exception], str]] = [
    ("sequence", (TOKENS, CLASSES + 1), TokenError, "targets[1]: expected a class with 0 <= id < 4, got 4"),
    ("sequence", (TOKENS, NEXT), ShapeError, "targets: expected (B,), a class for each row, got (5, 6)"),
    ("sequence", (TOKENS, CLASSES[1:]), ShapeError, "tokens, targets: expected (B, T), (B,), got (5, 6), (4,)"),
    ("decoder", (TOKENS, NEXT[:, 1:]), ShapeError, "tokens, targets: expected (B, T), (B, T), got (5, 6), (5, 5)"),
    ("decoder", (TOKENS, NEXT, NEXT), ShapeError, "tokens, targets: expected 2 arrays, the targets last, got 3"),
    ("masked", (TOKENS + 1, NEXT), TokenError, "tokens[0, 4]: expected a token id with 0 <= id < 9, got 9"),
    ("tokens", (TOKENS, NEXT[0]), ShapeError, "targets: expected (B, T), a batch of token ids, got (6,)"),
]


@pytest.mark.parametrize(("case", "batch", "error", "text"), BAD)
def test_a_bad_batch_changes_nothing(case, batch, error, text, numpy64):
    model = build_model(CASES[case][0], backend=numpy64)
    before, step = model.arena.values.copy(), step_for(model, lr=0.01)
    with pytest.raises(error, match=f"^{re.escape(text)}"):
        step(*batch)
    assert np.array_equal(model.arena.values, before)
    assert step.step_number == 0


@pytest.fixture
def with_batch_norm():
    """with_batch_norm(kind, backend): a small model whose norms are over batches."""

    def build(kind: str, backend: Backend, **changes) -> Model:
        options = SIZES | {"norm": "batch", "dropout": 0.0} | changes
        if kind == "transformer":
            layers = {"num_encoder_layers": 1, "num_decoder_layers": 1}
            return Transformer(TransformerConfig(9, 9, **layers, **options), backend=backend, seed=2)
        if kind == "encoder":
            return Encoder(EncoderConfig(vocab_size=9, num_layers=2, **options), backend=backend, seed=2)
        return Decoder(DecoderConfig(vocab_size=9, num_layers=1, **options), backend=backend, seed=2)

    return build


def norms_of(layer) -> list[BatchNorm]:
    return [each for each in layer.all_layers() if isinstance(each, BatchNorm)]


KINDS = pytest.mark.parametrize("kind", ["transformer", "encoder", "decoder"])
ORDERS = pytest.mark.parametrize("norm_order", ["post", "pre"])


def batch_of(kind: str) -> tuple[Any, ...]:
    return (TOKENS[::-1], TOKENS, NEXT) if kind == "transformer" else (TOKENS, NEXT)


@KINDS
@ORDERS
def test_every_norm_remembers_what_it_saw_once(kind, norm_order, with_batch_norm, any64):
    model, mirror = (with_batch_norm(kind, any64, norm_order=norm_order) for _ in range(2))
    _, cache = mirror.forward(*batch_of(kind)[:-1], key=RandomKey(4, 0))
    seen = list(statistics_in(cache))
    assert sorted(id(one.norm) for one in seen) == sorted(map(id, norms_of(mirror))), "each of them once"
    for one in seen:
        one.norm.remember(one)
    step_for(model, lr=0.01)(*batch_of(kind))
    buffers = dict(mirror.named_buffers())
    assert len(buffers) == 2 * len(seen)
    for name, buffer in model.named_buffers():
        np.testing.assert_allclose(buffer.data, buffers[name].data, rtol=1e-12, atol=1e-14, err_msg=name)
        assert np.max(np.abs(buffer.data - (0 if name.endswith("mean") else 1))) > 1e-3, name


@KINDS
def test_rows_are_not_shared_out(kind, with_batch_norm):
    """They look at each other: halves of a batch would have statistics of their own."""
    models = [
        with_batch_norm(kind, get_backend("numpy", "float64", kernels="numpy", threads=threads)) for threads in (1, 3)
    ]
    losses = [np.asarray(step_for(model, lr=0.01)(*batch_of(kind))) for model in models]
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-13)
    for (name, one), (_, other) in zip(*(model.named_buffers() for model in models), strict=True):
        np.testing.assert_allclose(one.data, other.data, rtol=1e-12, atol=1e-14, err_msg=name)
    np.testing.assert_allclose(models[1].arena.grads, models[0].arena.grads, rtol=0, atol=1e-12)


def test_micro_batches_are_remembered_in_turn(with_batch_norm, numpy64):
    model, mirror = (with_batch_norm("encoder", numpy64) for _ in range(2))
    for rows in (slice(0, 3), slice(3, 5)):
        for one in statistics_in(mirror.forward(TOKENS[rows], key=RandomKey(4, 0))[1]):
            one.norm.remember(one)
    step_for(model, accumulate=2)(TOKENS, NEXT)
    for (name, one), (_, other) in zip(model.named_buffers(), mirror.named_buffers(), strict=True):
        np.testing.assert_allclose(one.data, other.data, rtol=1e-12, atol=1e-14, err_msg=name)


def test_a_step_that_fails_remembers_nothing(with_batch_norm, numpy64, monkeypatch):
    model = with_batch_norm("encoder", numpy64)
    before = {name: buffer.data.copy() for name, buffer in model.named_buffers()}
    step = step_for(model, lr=0.01)

    def fail(*_):
        raise MemoryError

    monkeypatch.setattr(type(step.optimizer), "step", fail)
    with pytest.raises(MemoryError):
        step(TOKENS, NEXT)
    assert all(np.array_equal(buffer.data, before[name]) for name, buffer in model.named_buffers())


@KINDS
def test_inference_is_by_what_was_remembered(kind, with_batch_norm, numpy64):
    """After many steps a row alone gets nearly what it gets in its batch, and without them it does not."""
    model = with_batch_norm(kind, numpy64)
    inputs = batch_of(kind)[:-1]
    before = model(*inputs)
    step_for(model, lr=0.0).many([batch_of(kind)] * 80)
    trained = model.forward(*inputs, key=RandomKey(4, 0))[0]
    counted = TOKENS != 0
    assert np.max(np.abs(model(*inputs) - trained)[counted]) < 0.2 * np.max(np.abs(before - trained)[counted])
