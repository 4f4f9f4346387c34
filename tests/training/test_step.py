"""A training step is forward, loss, backward, clipping and Adam, whatever the micro-batches."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from npformer.backend import Backend
from npformer.errors import ConfigError, DTypeError, NpformerError, ShapeError, TokenError
from npformer.functional import cross_entropy_backward, cross_entropy_forward
from npformer.layers import RandomKey
from npformer.models import Transformer, TransformerConfig
from npformer.optim import Adam, Noam
from npformer.training import TrainStep

Host = np.ndarray[Any, Any]
# One long row and four short ones: micro-batches of very different numbers of counted tokens.
SRC = np.array([[3, 5, 4, 6, 8, 2], [8, 2, 0, 0, 0, 0], [4, 2, 0, 0, 0, 0], [7, 2, 0, 0, 0, 0], [5, 2, 0, 0, 0, 0]])
TGT_IN = np.array([[1, 8, 6, 4, 5, 3], [1, 8, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0], [1, 7, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0]])
TGT_OUT = np.array([[8, 6, 4, 5, 3, 2], [8, 2, 0, 0, 0, 0], [2, 0, 0, 0, 0, 0], [7, 2, 0, 0, 0, 0], [2, 0, 0, 0, 0, 0]])
BATCH = (SRC, TGT_IN, TGT_OUT)


def build(backend: Backend, **changes) -> Transformer:
    options = {"d_model": 8, "num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 1, "d_ff": 12}
    config = TransformerConfig(9, 9, **(options | {"dropout": 0.0, "max_seq_len": 6} | changes))
    return Transformer(config, backend=backend, seed=2)


def step_for(model: Transformer, lr: float = 0.01, **options) -> TrainStep:
    return TrainStep(model, Adam(model.arena, lr=lr), **options)


def by_hand(model: Transformer, batch, key: RandomKey | None = None, smoothing: float = 0.0) -> tuple[float, Host]:
    """(loss, the flat gradient) of one whole batch."""
    model.zero_grad()
    logits, cache = model.forward(batch[0], batch[1], key=key)
    loss, loss_cache = cross_entropy_forward(logits, batch[2], 0, smoothing)
    model.backward(cross_entropy_backward(1.0, loss_cache)[0], cache)
    return float(loss), model.arena.grads.copy()


@pytest.mark.parametrize("accumulate", [1, 2, 3, 4, 5, 9])
@pytest.mark.parametrize("label_smoothing", [0.0, 0.2])
def test_micro_batches_give_the_loss_and_gradient_of_the_whole(accumulate, label_smoothing, numpy64):
    model = build(numpy64)
    expected_loss, expected = by_hand(model, BATCH, smoothing=label_smoothing)
    step = step_for(model, lr=0.0, accumulate=accumulate, label_smoothing=label_smoothing)
    assert float(step(*BATCH)) == pytest.approx(expected_loss, rel=1e-13)
    np.testing.assert_allclose(model.arena.grads, expected, rtol=0, atol=1e-12 * np.max(np.abs(expected)))


def test_averaging_micro_batches_would_have_been_seen(numpy64):
    """The batch above can tell the mean over tokens from the mean over micro-batches."""
    model = build(numpy64)
    whole_loss, whole = by_hand(model, BATCH)
    parts = [by_hand(model, [ids[rows] for ids in BATCH]) for rows in (slice(0, 3), slice(3, 5))]
    assert abs(np.mean([loss for loss, _ in parts]) - whole_loss) > 1e-3
    assert np.max(np.abs(np.mean([gradient for _, gradient in parts], axis=0) - whole)) > 0.1 * np.max(np.abs(whole))


def test_steps_equal_forward_loss_backward_and_adam_by_hand(numpy64):
    model, twin = build(numpy64, dropout=0.3), build(numpy64, dropout=0.3)
    schedule, clip_norm = Noam(d_model=8, warmup_steps=3), 0.5
    step = TrainStep(model, Adam(model.arena, lr=99.0, betas=(0.9, 0.98), eps=1e-3), seed=4, label_smoothing=0.1,
                     clip_norm=clip_norm, schedule=schedule)  # fmt: skip
    p, m, v = twin.arena.values, np.zeros(twin.arena.size), np.zeros(twin.arena.size)
    for t in range(1, 5):
        assert step.learning_rate == schedule(t)
        loss = step(*BATCH)
        expected_loss, g = by_hand(twin, BATCH, RandomKey(seed=4, step=t - 1), smoothing=0.1)
        norm = np.linalg.norm(g)
        assert float(loss) == pytest.approx(expected_loss, rel=1e-12)
        assert float(step.grad_norm) == pytest.approx(norm, rel=1e-12)
        assert norm > clip_norm
        g = g * clip_norm / norm
        m, v = 0.9 * m + 0.1 * g, 0.98 * v + 0.02 * g**2
        p -= schedule(t) * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.98**t)) + 1e-3)
        assert step.step_number == t
        np.testing.assert_allclose(model.arena.values, p, rtol=1e-10, atol=1e-13)


def test_without_clipping_no_norm_is_taken(numpy64):
    step = step_for(build(numpy64))
    step(*BATCH)
    assert step.grad_norm is None
    assert step.learning_rate == 0.01


def run(backend: Backend, seed: int, monkeypatch: pytest.MonkeyPatch) -> tuple[list[bytes], list[Any], bytes]:
    """(losses, sorted draws, parameters) of three steps with two micro-batches each, on one thread or several."""
    model = build(backend, dropout=0.3)
    step = step_for(model, seed=seed, accumulate=2)
    draws: list[Any] = []
    real = RandomKey.draw
    with monkeypatch.context() as patch:
        patch.setattr(RandomKey, "draw", lambda self, rate: draws.append(real(self, rate)) or draws[-1])
        losses = [np.asarray(step(*BATCH)).tobytes() for _ in range(3)]
    return losses, sorted(draws), model.arena.values.tobytes()


def test_one_seed_gives_one_run_to_the_bit(numpy32, monkeypatch):
    first, again, other = (run(numpy32, seed, monkeypatch) for seed in (0, 0, 1))
    assert first == again
    assert first[0][0] != other[0][0]
    assert first[2] != other[2]


def test_every_step_and_micro_batch_draws_masks_of_its_own(numpy64, monkeypatch):
    _, draws, _ = run(numpy64, 7, monkeypatch)
    assert {(d.seed, d.step, d.micro) for d in draws} == {(7, step, micro) for step in range(3) for micro in (0, 1)}
    assert len(set(draws)) == len(draws)


def replaced(place: int, value) -> tuple[Any, ...]:
    return tuple(value if i == place else ids for i, ids in enumerate(BATCH))


BAD: list[tuple[Any, type[NpformerError], str]] = [
    (replaced(0, SRC + 1), TokenError, "src[0, 4]: expected a token id with 0 <= id < 9, got 9"),
    (replaced(1, TGT_IN - 1), TokenError, "tgt_in[1, 2]: expected a token id with 0 <= id < 9, got -1"),
    (replaced(2, TGT_OUT - 1), TokenError, "tgt_out[1, 2]: expected a token id with 0 <= id < 9, got -1"),
    (replaced(2, TGT_OUT * 1.0), DTypeError, "tgt_out: expected integers (token ids), got float64"),
    (replaced(2, [[1, 2], [3]]), ShapeError, "tgt_out: expected (B, T), rows of equal length, got rows that differ"),
    (replaced(0, SRC[0]), ShapeError, "src: expected (B, T), a batch of token ids, got (6,)"),
    (
        replaced(2, TGT_OUT[:, 1:]),
        ShapeError,
        "src, tgt_in, tgt_out: expected (B, S), (B, T), (B, T), got (5, 6), (5, 6), (5, 5)",
    ),
    (
        replaced(0, SRC[1:]),
        ShapeError,
        "src, tgt_in, tgt_out: expected (B, S), (B, T), (B, T), got (4, 6), (5, 6), (5, 6)",
    ),
    (
        tuple(np.hstack([ids, ids]) for ids in BATCH),
        ShapeError,
        "x: expected at most 6 positions (max_seq_len), got 12",
    ),
]


@pytest.mark.parametrize(("batch", "error", "text"), BAD)
def test_a_bad_batch_changes_nothing(batch, error, text, numpy64):
    model = build(numpy64, positions="learned")
    step = step_for(model, accumulate=2, clip_norm=1.0)
    step(*BATCH)
    before = [flat.copy() for flat in (model.arena.values, step.optimizer.m, step.optimizer.v)]
    with pytest.raises(error, match=f"^{re.escape(text)}"):
        step(*batch)
    after = (model.arena.values, step.optimizer.m, step.optimizer.v)
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
    assert step.step_number == 1


def test_narrow_integers_train_as_wide_ones(numpy64):
    """Token ids of one byte with more classes than a byte holds: class 256 is not class 0."""
    losses = []
    for dtype in ("uint8", "int64"):
        config = TransformerConfig(300, 300, d_model=4, num_heads=2, num_encoder_layers=1, num_decoder_layers=1,
                                   d_ff=4)  # fmt: skip
        step = step_for(Transformer(config, backend=numpy64))
        losses.append([float(step(*(ids.astype(dtype) for ids in BATCH))) for _ in range(2)])
    assert losses[0] == losses[1]


@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_batch_of_padding_alone_has_loss_0_and_gradient_0(accumulate, numpy32):
    model = build(numpy32)
    before = model.arena.values.copy()
    step = step_for(model, accumulate=accumulate, clip_norm=1.0)
    assert float(step(*(np.zeros_like(ids) for ids in BATCH))) == 0
    assert float(step.grad_norm) == 0
    assert not model.arena.grads.any()
    assert np.array_equal(model.arena.values, before)


def test_the_loss_is_a_fresh_array_each_time(numpy32):
    step = step_for(build(numpy32))
    first = step(*BATCH)
    value = float(first)
    assert float(step(*BATCH)) < value == float(first)


def test_a_step_on_a_device_that_is_not_the_cpu(numpy64, strict64):
    found = []
    for backend in (numpy64, strict64):
        model = build(backend, dropout=0.2)
        step = step_for(model, accumulate=2, clip_norm=0.5)
        batch = BATCH if backend is numpy64 else tuple(backend.integers(ids) for ids in BATCH)
        loss = step(*batch)
        assert backend.device.owns(loss) or backend is numpy64
        found.append((float(loss), float(step.grad_norm), backend.host(model.arena.values)))
    assert found[0][:2] == pytest.approx(found[1][:2], rel=1e-12)
    np.testing.assert_allclose(found[1][2], found[0][2], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"accumulate": 0}, "accumulate: expected an integer >= 1, got 0"),
        ({"clip_norm": 0.0}, "clip_norm: expected a number > 0 or None, got 0.0"),
        ({"clip_norm": float("nan")}, "clip_norm: expected a number > 0 or None, got nan"),
        ({"label_smoothing": 1.0}, "label_smoothing: expected 0 <= label_smoothing < 1, got 1.0"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, text, numpy64):
    with pytest.raises(ConfigError, match=f"^{re.escape(text)}$"):
        step_for(build(numpy64), **options)


def test_an_optimizer_of_another_model_is_refused(numpy64):
    text = "optimizer: expected one over model.arena, got one of another model; it would train that"
    with pytest.raises(ConfigError, match=f"^{re.escape(text)}$"):
        TrainStep(build(numpy64), Adam(build(numpy64).arena))
