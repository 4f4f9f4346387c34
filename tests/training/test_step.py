"""A training step is forward, loss, backward, clipping and Adam, whatever the model and the micro-batches."""

import re
import sys
from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest

import npformer
from npformer.backend import get_backend
from npformer.errors import ConfigError, DTypeError, ShapeError, TokenError
from npformer.functional import cross_entropy_backward, cross_entropy_forward
from npformer.layers import RandomKey
from npformer.layers.batch_norm import statistics_in
from npformer.models import DecoderConfig, EncoderConfig, Transformer, TransformerConfig, build_model
from npformer.models.presets import PRESETS
from npformer.optim import Adam, Noam
from npformer.training import TrainStep
from tests.outputs import unchanged

# One long row and four short ones: micro-batches of very different numbers of counted tokens.
SRC = np.array([[3, 5, 4, 6, 8, 2], [8, 2, 0, 0, 0, 0], [4, 2, 0, 0, 0, 0], [7, 2, 0, 0, 0, 0], [5, 2, 0, 0, 0, 0]])
TGT_IN = np.array([[1, 8, 6, 4, 5, 3], [1, 8, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0], [1, 7, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0]])
TGT_OUT = np.array([[8, 6, 4, 5, 3, 2], [8, 2, 0, 0, 0, 0], [2, 0, 0, 0, 0, 0], [7, 2, 0, 0, 0, 0], [2, 0, 0, 0, 0, 0]])
BATCH = (SRC, TGT_IN, TGT_OUT)
TOKENS = np.array([[3, 5, 4, 6, 8, 2], [8, 2, 0, 0, 0, 0], [4, 2, 7, 0, 0, 0], [7, 2, 0, 0, 0, 0], [5, 2, 1, 0, 0, 0]])
NEXT = np.array([[5, 4, 6, 8, 2, 3], [2, 8, 0, 0, 0, 0], [2, 0, 5, 0, 0, 0], [2, 3, 0, 0, 0, 0], [2, 0, 4, 0, 0, 0]])
CLASSES = np.array([1, 3, 0, 2, 3])

SIZES = {"d_model": 8, "num_heads": 2, "d_ff": 12, "dropout": 0.0, "max_seq_len": 6}
CASES = {
    "transformer": (TransformerConfig(9, 9, num_encoder_layers=1, num_decoder_layers=1, **SIZES), BATCH),
    "sequence": (EncoderConfig(9, head="sequence", num_classes=4, num_layers=1, **SIZES), (TOKENS, CLASSES)),
    "tokens": (EncoderConfig(9, head="tokens", num_classes=9, num_layers=1, **SIZES), (TOKENS, NEXT)),
    "masked": (EncoderConfig(9, tie_embeddings=True, num_layers=2, **SIZES), (TOKENS, NEXT)),
    "decoder": (DecoderConfig(9, num_layers=2, norm_order="pre", positions="rotary", **SIZES), (TOKENS, NEXT)),
}
EVERY_CASE = pytest.mark.parametrize("case", CASES)


def build(backend, case="transformer", **changes):
    return build_model(replace(CASES[case][0], **changes), backend=backend, seed=2)


def step_for(model, lr=0.01, **options):
    return TrainStep(model, Adam(model.arena, lr=lr), **options)


def by_hand(model, batch, key=None, smoothing=0.0):
    """(loss, the flat gradient) of one whole batch."""
    *inputs, targets = batch
    model.zero_grad()
    logits, cache = model.forward(*inputs, key=key)
    loss, loss_cache = cross_entropy_forward(logits, targets, 0, smoothing)
    model.backward(cross_entropy_backward(1.0, loss_cache)[0], cache)
    return float(loss), model.arena.grads.copy()


@EVERY_CASE
@pytest.mark.parametrize(("accumulate", "threads"), [(1, 1), (2, 1), (3, 1), (9, 1), (1, 2), (1, 3)])
@pytest.mark.parametrize("label_smoothing", [0.0, 0.2])
def test_micro_batches_give_the_loss_and_gradient_of_the_whole(case, accumulate, threads, label_smoothing, kernels):
    """And so do the threads that share a batch, also where a single token counts."""
    *inputs, targets = CASES[case][1]
    one = np.zeros_like(targets)
    one[0, ...].flat[0] = 3
    alone, model = (build(get_backend("numpy", "float64", kernels=kernels, threads=n), case) for n in (1, threads))
    step = step_for(model, lr=0.0, accumulate=accumulate, label_smoothing=label_smoothing)
    for batch in ((*inputs, targets), (*inputs, one)):
        expected_loss, expected = by_hand(alone, batch, smoothing=label_smoothing)
        assert float(step(*batch)) == pytest.approx(expected_loss, rel=1e-13)
        np.testing.assert_allclose(model.arena.grads, expected, rtol=0, atol=1e-12 * np.max(np.abs(expected)))


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


def test_every_step_and_micro_batch_draws_masks_of_its_own(numpy64, monkeypatch):
    step = step_for(build(numpy64, dropout=0.3), seed=7, accumulate=2)
    draws, real = [], RandomKey.draw
    monkeypatch.setattr(RandomKey, "draw", lambda self, rate: draws.append(real(self, rate)) or draws[-1])
    for _ in range(3):
        step(*BATCH)
    assert {(d.seed, d.step, d.micro) for d in draws} == {(7, step, micro) for step in range(3) for micro in (0, 1)}
    assert len(set(draws)) == len(draws)


def replaced(place, value):
    return tuple(value if i == place else ids for i, ids in enumerate(BATCH))


BAD = [
    ("transformer", replaced(0, SRC + 1), TokenError, "src[0, 4]: expected a token id with 0 <= id < 9, got 9"),
    ("transformer", replaced(2, TGT_OUT - 1), TokenError,
     "tgt_out[1, 2]: expected a token id with 0 <= id < 9, got -1"),
    ("transformer", replaced(2, TGT_OUT * 1.0), DTypeError, "tgt_out: expected integers (token ids), got float64"),
    ("transformer", replaced(2, TGT_OUT[:, 1:]), ShapeError,
     "src, tgt_in, tgt_out: expected (B, S), (B, T), (B, T), got (5, 6), (5, 6), (5, 5)"),
    ("transformer", tuple(np.hstack([ids, ids]) for ids in BATCH), ShapeError,
     "x: expected at most 6 positions (max_seq_len), got 12"),
    ("sequence", (TOKENS, CLASSES + 1), TokenError, "targets[1]: expected a class with 0 <= id < 4, got 4"),
    ("sequence", (TOKENS, NEXT), ShapeError, "targets: expected (B,), a class for each row, got (5, 6)"),
    ("sequence", (TOKENS, CLASSES[1:]), ShapeError, "tokens, targets: expected (B, T), (B,), got (5, 6), (4,)"),
    ("decoder", (TOKENS, NEXT[:, 1:]), ShapeError, "tokens, targets: expected (B, T), (B, T), got (5, 6), (5, 5)"),
    ("decoder", (TOKENS, NEXT, NEXT), ShapeError, "tokens, targets: expected 2 arrays, the targets last, got 3"),
]  # fmt: skip


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(("case", "batch", "error", "text"), BAD)
def test_a_bad_batch_changes_nothing(case, batch, error, text, threads, kernels):
    model = build(get_backend("numpy", "float64", kernels=kernels, threads=threads), case, positions="learned")
    step = step_for(model, accumulate=2, clip_norm=1.0)
    step(*CASES[case][1])
    state = unchanged(model.arena, step.optimizer.m, step.optimizer.v)
    with state, pytest.raises(error, match=f"^{re.escape(text)}"):
        step(*batch)
    assert step.step_number == 1


@pytest.mark.parametrize(("accumulate", "threads"), [(2, 1), (1, 3)])
def test_a_batch_of_padding_alone_has_loss_0_and_gradient_0(accumulate, threads, dtype, kernels):
    model = build(get_backend("numpy", dtype, kernels=kernels, threads=threads))
    step = step_for(model, accumulate=accumulate, clip_norm=1.0)
    with unchanged(model.arena):
        assert float(step(*(np.zeros_like(ids) for ids in BATCH))) == 0
    assert float(step.grad_norm) == 0
    assert not model.arena.grads.any()


def test_a_step_on_a_device_that_is_not_the_cpu(numpy64, strict64):
    devices = []
    for backend in (numpy64, strict64):
        model = build(backend, dropout=0.2)
        step = step_for(model, accumulate=2, clip_norm=0.5)
        batch = BATCH if backend is numpy64 else tuple(backend.integers(ids) for ids in BATCH)
        loss = step(*batch)
        assert backend.device.owns(loss) or backend is numpy64
        devices.append((float(loss), float(step.grad_norm), backend.host(model.arena.values)))
    assert devices[0][:2] == pytest.approx(devices[1][:2], rel=1e-12)
    np.testing.assert_allclose(devices[1][2], devices[0][2], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"accumulate": 0}, "accumulate: expected an integer >= 1, got 0"),
        ({"seed": 1.5}, "seed: expected an integer >= 0, got 1.5"),
        ({"clip_norm": 0.0}, "clip_norm: expected a number > 0 or None, got 0.0"),
        ({"label_smoothing": 1.0}, "label_smoothing: expected 0 <= label_smoothing < 1, got 1.0"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, text, numpy64):
    with pytest.raises(ConfigError, match=f"^{re.escape(text)}$"):
        step_for(build(numpy64), **options)


#: Models whose rows look at each other.
WITH_BATCH_NORM = pytest.mark.parametrize("case", ["transformer", "masked", "decoder"])


def expect_the_same_memory(model, other):
    """Both models' BatchNorms remember the same."""
    for (name, one), (_, two) in zip(model.named_buffers(), other.named_buffers(), strict=True):
        np.testing.assert_allclose(one.data, two.data, rtol=1e-12, atol=1e-14, err_msg=name)


@WITH_BATCH_NORM
@pytest.mark.parametrize("norm_order", ["post", "pre"])
def test_every_norm_remembers_what_it_saw_once(case, norm_order, any64):
    model, mirror = (build(any64, case, norm="batch", norm_order=norm_order) for _ in range(2))
    batch = CASES[case][1]
    _, cache = mirror.forward(*batch[:-1], key=RandomKey(4, 0))
    seen = list(statistics_in(cache))
    for one in seen:
        one.norm.remember(one)
    step_for(model, seed=4)(*batch)
    expect_the_same_memory(model, mirror)
    assert len(list(model.named_buffers())) == 2 * len(seen)


@WITH_BATCH_NORM
def test_rows_are_not_shared_out(case):
    """Halves of a batch would have statistics of their own."""
    backends = [get_backend("numpy", "float64", kernels="numpy", threads=threads) for threads in (1, 3)]
    models = [build(backend, case, norm="batch") for backend in backends]
    losses = [np.asarray(step_for(model, seed=4)(*CASES[case][1])) for model in models]
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-13)
    expect_the_same_memory(*models)
    np.testing.assert_allclose(models[1].arena.grads, models[0].arena.grads, rtol=0, atol=1e-12)


def test_micro_batches_are_remembered_in_turn(numpy64):
    model, mirror = (build(numpy64, "masked", norm="batch") for _ in range(2))
    for rows in (slice(0, 3), slice(3, 5)):
        for one in statistics_in(mirror.forward(TOKENS[rows], key=RandomKey(4, 0))[1]):
            one.norm.remember(one)
    step_for(model, lr=0.0, seed=4, accumulate=2)(TOKENS, NEXT)
    expect_the_same_memory(model, mirror)


def test_a_step_that_fails_remembers_nothing(numpy64, monkeypatch):
    model = build(numpy64, "masked", norm="batch")
    before = {name: buffer.data.copy() for name, buffer in model.named_buffers()}
    step = step_for(model)

    monkeypatch.setattr(type(step.optimizer), "step", Mock(side_effect=MemoryError))
    with pytest.raises(MemoryError):
        step(TOKENS, NEXT)
    assert all(np.array_equal(buffer.data, before[name]) for name, buffer in model.named_buffers())


@pytest.mark.parametrize(("kernels", "made"), [("plain", 1), ("auto", 3)])
def test_a_step_goes_through_few_files(kernels, made):
    """A reader can open them all. By fast kernels the first steps compile and record; those that follow count."""
    tiny, files = PRESETS["tiny"], set()
    model = Transformer(tiny.config(0.1), backend=get_backend("numpy", kernels=kernels, threads=1))
    step, batch = step_for(model), tiny.example_batch()
    for _ in range(made):
        step(*batch)
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, _: files.add(frame.f_code.co_filename) if event == "call" else None)
    try:
        step(*batch)
    finally:
        sys.setprofile(before)
    assert 10 < len([file for file in files if file.startswith(npformer.__path__[0])]) <= 45
