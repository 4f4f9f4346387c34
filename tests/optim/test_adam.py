"""Adam over the arena against Adam written out tensor by tensor."""

import re

import numpy as np
import pytest

from npformer.errors import ConfigError
from npformer.models import Transformer, TransformerConfig
from npformer.optim import Adam, AdamW

BETAS, EPS = (0.9, 0.98), 1e-2  # an eps that shows where it stands: beside the root, not in it


def by_hand(p, gradients, lr, decay=0.0):
    """Algorithm 1 of Kingma & Ba, line by line, with Loshchilov & Hutter's decay."""
    p, m, v = p.copy(), np.zeros_like(p), np.zeros_like(p)
    for t, g in enumerate(gradients, start=1):
        m = BETAS[0] * m + (1 - BETAS[0]) * g
        v = BETAS[1] * v + (1 - BETAS[1]) * g**2
        m_hat, v_hat = m / (1 - BETAS[0] ** t), v / (1 - BETAS[1] ** t)
        p = p - lr * decay * p - lr * m_hat / (np.sqrt(v_hat) + EPS)
    return p


def run(optimizer, tensors, steps=20):
    """Make steps with random gradients, one of them 0; returns the gradients by name."""
    arena, rng = optimizer.arena, np.random.default_rng(1)
    changed_options = {segment.name: [] for segment in arena.segments}
    for step in range(steps):
        for name, gradient in tensors(arena, arena.grads).items():
            gradient[...] = rng.normal(size=gradient.shape) * (0 if step == 7 else 10.0 ** (step % 3))
            changed_options[name].append(gradient.copy())
        optimizer.step()
    return changed_options


FROZEN_AND_SCALED = {"first": {"trainable": False}, "second.bias": {"lr_scale": 0.5}}
SCALED_DECAY = {"second.weight": {"weight_decay": 0.5, "lr_scale": 2.0}}


@pytest.mark.parametrize(
    ("weight_decay", "configured"),
    [(None, {}), (None, FROZEN_AND_SCALED), (0.1, {}), (0.2, SCALED_DECAY)],
    ids=str,
)
def test_twenty_steps_equal_the_algorithm_tensor_by_tensor(weight_decay, configured, arena, tensors):
    for names, options in configured.items():
        arena.configure(names, **options)
    before = {name: p.copy() for name, p in tensors(arena, arena.values).items()}
    options = {"lr": 0.03, "betas": BETAS, "eps": EPS}
    optimizer = Adam(arena, **options) if weight_decay is None else AdamW(arena, **options, weight_decay=weight_decay)
    gradients = run(optimizer, tensors)
    assert optimizer.t == 20
    moments = tensors(arena, optimizer.m)
    for name, p in tensors(arena, arena.values).items():
        options_of_tensor = {
            key: x
            for names, changed_options in configured.items()
            if name.startswith(names)
            for key, x in changed_options.items()
        }
        if not options_of_tensor.get("trainable", True):
            assert np.array_equal(p, before[name])
            assert not moments[name].any()
            continue
        decay = (
            options_of_tensor.get("weight_decay", 1) * (weight_decay or 0) * name.endswith("weight")
        )  # biases and gains: none
        expected = by_hand(before[name], gradients[name], 0.03 * options_of_tensor.get("lr_scale", 1), decay)
        np.testing.assert_allclose(p, expected, rtol=1e-13, atol=2e-15, err_msg=name)


def test_no_bias_gain_or_shift_of_a_transformer_decays(numpy64):
    config = TransformerConfig(7, 7, d_model=4, num_heads=2, num_encoder_layers=1, num_decoder_layers=1, d_ff=6)
    model = Transformer(config, backend=numpy64)
    before = {name: p.data.copy() for name, p in model.named_parameters()}
    AdamW(model.arena, lr=0.1, weight_decay=0.2).step()
    for name, p in model.named_parameters():
        shrunk = before[name] * (1 - 0.02 if name.endswith("weight") else 1)
        np.testing.assert_allclose(p.data, shrunk, rtol=1e-15, err_msg=name)


def test_moments_are_views_by_kind_and_name(arena, tensors):
    optimizer = Adam(arena)
    run(optimizer, tensors, steps=2)
    moments = optimizer.moments()
    assert moments.keys() == {f"{kind}.{s.name}" for kind in ("first", "second") for s in arena.segments}
    for kind, flat in (("first", optimizer.m), ("second", optimizer.v)):
        for name, part in tensors(arena, flat).items():
            assert np.shares_memory(moments[f"{kind}.{name}"], part)
            assert np.array_equal(moments[f"{kind}.{name}"], part)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"lr": -1e-3}, "lr: expected a finite number >= 0, got -0.001"),
        ({"lr": float("inf")}, "lr: expected a finite number >= 0, got inf"),
        ({"betas": (1.0, 0.9)}, "betas: expected two numbers with 0 <= beta < 1, got (1.0, 0.9)"),
        ({"betas": (0.9, -0.1)}, "betas: expected two numbers with 0 <= beta < 1, got (0.9, -0.1)"),
        ({"eps": 0.0}, "eps: expected a number > 0, got 0.0"),
        ({"weight_decay": -0.1}, "weight_decay: expected a number >= 0, got -0.1"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, text, arena):
    with pytest.raises(ConfigError, match=f"^{re.escape(text)}$"):
        AdamW(arena, **options)
