"""Stacks: when there is a final norm, and that the values at hidden positions have no effect."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npformer.functional import AttentionMask
from npformer.layers import DecoderStack, EncoderStack, LayerNorm, LearnedPositions
from npformer.proof.catalogue import shaken

SIZE = {"num_layers": 2, "d_model": 4, "num_heads": 2, "d_ff": 6}
Host = np.ndarray[Any, Any]
VISIBLE = np.array([[True, True, True, True], [True, True, False, False]])  # (B, T)
MEMORY_VISIBLE = np.array([[True, True, False], [True, False, False]])  # (B, S)


@pytest.mark.parametrize("kind", [EncoderStack, DecoderStack])
@pytest.mark.parametrize(
    ("norm_order", "final_norm", "has_norm"),
    [("post", None, False), ("pre", None, True), ("post", True, True), ("pre", False, False)],
)
def test_final_norm_none_means_only_for_pre_ln(kind, norm_order, final_norm, has_norm, numpy64):
    stack = kind(**SIZE, norm_order=norm_order, final_norm=final_norm, backend=numpy64)
    assert isinstance(stack.norm, LayerNorm) == has_norm


def poisoned(x: Host, visible: Host) -> Host:
    """x with numbers of size 1000 wherever nobody may look."""
    poison = 1e3 * np.random.default_rng(9).normal(size=x.shape).astype(x.dtype)
    return np.where(visible[..., None], x, poison)


def masked_normal(seed: int, visible: Host, dtype: str) -> Host:
    x = np.random.default_rng(seed).normal(size=(*visible.shape, 4)).astype(dtype)
    return np.asarray(x)


def run(stack, dy: Host, *inputs: Host, **masks: AttentionMask) -> tuple[Host, tuple[Host, ...], dict[str, Host]]:
    stack.zero_grad()
    y, cache = stack.forward(*inputs, **masks)
    gradients = stack.backward(dy, cache)
    gradients = gradients if isinstance(gradients, tuple) else (gradients,)
    return y, gradients, {name: p.grad.copy() for name, p in stack.named_parameters()}


@pytest.mark.parametrize("norm_order", ["post", "pre"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_values_in_padding_reach_no_output_and_no_gradient(norm_order, dtype, numpy32, numpy64):
    backend = numpy32 if dtype == "float32" else numpy64
    encoder = shaken(EncoderStack(**SIZE, norm_order=norm_order, activation="gelu", backend=backend))
    decoder = shaken(DecoderStack(**SIZE, norm_order=norm_order, activation="gelu", backend=backend))
    x, memory = masked_normal(0, VISIBLE, dtype), masked_normal(1, MEMORY_VISIBLE, dtype)
    dy = masked_normal(2, VISIBLE, dtype) * VISIBLE[..., None]
    cases: list[tuple[Any, list[Host], list[Host], dict[str, AttentionMask]]] = [
        (encoder, [x], [VISIBLE], {"mask": AttentionMask(VISIBLE)}),
        (
            decoder,
            [x, memory],
            [VISIBLE, MEMORY_VISIBLE],
            {"mask": AttentionMask(VISIBLE, causal=True), "memory_mask": AttentionMask(MEMORY_VISIBLE)},
        ),
    ]
    for stack, inputs, visible, masks in cases:
        y, gradients, parameters = run(stack, dy, *inputs, **masks)
        bad = [poisoned(*pair) for pair in zip(inputs, visible, strict=True)]
        y_bad, gradients_bad, parameters_bad = run(stack, dy, *bad, **masks)
        assert np.array_equal(y[VISIBLE], y_bad[VISIBLE])
        for seen, good, other in zip(visible, gradients, gradients_bad, strict=True):
            assert np.array_equal(good, other)
            assert not good[~seen].any()
            assert good[seen].all()
        assert all(np.array_equal(parameters[name], parameters_bad[name]) for name in parameters)


@pytest.mark.parametrize("norm_order", ["post", "pre"])
def test_the_gradient_of_the_memory_is_the_sum_over_the_layers_that_read_it(norm_order, numpy64):
    stack: Any = shaken(DecoderStack(**SIZE, norm_order=norm_order, final_norm=False, backend=numpy64))
    x, memory, dy = (masked_normal(seed, VISIBLE, "float64") for seed in (0, 1, 2))
    y, cache = stack.forward(x, memory)
    dx, dmemory = stack.backward(dy, cache)
    h, below = stack.layers[0].forward(x, memory)
    _, above = stack.layers[1].forward(h, memory)
    dh, from_above = stack.layers[1].backward(dy, above)
    by_hand, from_below = stack.layers[0].backward(dh, below)
    np.testing.assert_allclose(dx, by_hand, rtol=1e-13)
    np.testing.assert_allclose(dmemory, from_above + from_below, rtol=1e-12, atol=1e-14)
    assert np.all(from_above)
    assert y.shape == x.shape


def test_learned_positions_add_the_rows_from_the_offset_on(numpy64):
    layer = LearnedPositions(7, 4, backend=numpy64)
    x = np.random.default_rng(0).normal(size=(2, 3, 4))
    assert np.array_equal(layer(x, 2), x + layer.weight.data[2:5])
