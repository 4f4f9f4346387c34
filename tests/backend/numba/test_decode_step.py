"""The compiled step of a decoder layer against the layer's own composition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba")

from npformer.backend import get_backend
from npformer.backend.numba.decode_step import FEW_TOKENS, decoder_layer_step
from npformer.functional import AttentionMask
from npformer.layers import DecoderLayer, LayerState
from npformer.proof.catalogue import shaken

Host = np.ndarray[Any, Any]
MAX_LEN, SOURCE, WIDTH = 6, 5, 15
TOLERANCE = {"float64": 1e-13, "float32": 3e-6}


def layer(dtype: str, norm_order: str = "post", activation: str = "relu") -> DecoderLayer:
    """The plain layer; sizes that four does not divide."""
    backend = get_backend("numpy", dtype=dtype, bodies="plain")
    made = shaken(DecoderLayer(WIDTH, 3, 21, norm_order=norm_order, activation=activation, backend=backend, seed=2))
    assert isinstance(made, DecoderLayer)
    return made


def parameters(of: DecoderLayer) -> tuple[Host, ...]:
    """In the order of the layer's formula."""
    own, cross, up, down = of.self_attention, of.cross_attention, of.feed_forward.up, of.feed_forward.down
    blocks = (
        own, own.output, of.norm1, cross, cross.output, of.norm2, up, down, of.norm3,
    )  # fmt: skip
    pairs = [(b.gamma, b.beta) if hasattr(b, "gamma") else (b.weight, b.bias) for b in blocks]
    return tuple(p.data for pair in pairs for p in pair)


def inputs(of: DecoderLayer, batch: int, position: int) -> tuple[Host, LayerState, AttentionMask, AttentionMask]:
    """A token for each row, a state that holds position tokens, and masks with padding."""
    rng = np.random.default_rng(batch)
    dtype = of.norm1.gamma.data.dtype
    state = of.start(batch, MAX_LEN, rng.normal(size=(batch, SOURCE, WIDTH)).astype(dtype))
    for t in range(position):
        x = rng.normal(size=(batch, 1, WIDTH)).astype(dtype)
        of.step(x, state, mask=AttentionMask(causal=True, query_offset=t), memory_mask=AttentionMask())
    visible = rng.random((batch, MAX_LEN)) < 0.7
    visible[-1] = False  # a query that sees nothing
    masks = (
        AttentionMask(visible[:, : position + 1], causal=True, query_offset=position),
        AttentionMask(rng.random((batch, SOURCE)) < 0.7),
    )
    return rng.normal(size=(batch, 1, WIDTH)).astype(dtype), state, *masks


def compiled(of: DecoderLayer, x: Host, state: LayerState, mask: AttentionMask, memory_mask: AttentionMask) -> Any:
    return decoder_layer_step(
        x, parameters(of), state.own, state.memory, mask, memory_mask,
        pre=of.norm_order == "pre", activation=of.feed_forward.activation, eps=of.norm1.eps,
    )  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("norm_order", ["post", "pre"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("batch", [1, 2, FEW_TOKENS])
def test_it_is_the_layers_step(dtype: str, norm_order: str, activation: str, batch: int) -> None:
    plain = layer(dtype, norm_order, activation)
    for position in (0, MAX_LEN - 1):
        x, state, mask, memory_mask = inputs(plain, batch, position)
        again = inputs(plain, batch, position)[1]
        kept = x.copy()
        y = compiled(plain, x, state, mask, memory_mask)
        expected = plain.step(x, again, mask=mask, memory_mask=memory_mask)
        assert y.dtype == x.dtype
        assert np.max(np.abs(y - expected)) < TOLERANCE[dtype] * np.max(np.abs(expected))
        assert np.array_equal(x, kept)
        for mine, theirs in zip(state.own, again.own, strict=True):
            assert np.max(np.abs(mine - theirs)) < TOLERANCE[dtype] * np.max(np.abs(theirs))


def test_the_layer_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = get_backend("numpy", dtype="float64", bodies="compiled")
    assert backend.decoder_layer_step is decoder_layer_step
    fast = DecoderLayer(WIDTH, 3, 21, backend=backend)
    monkeypatch.setattr(fast, "_post", None)
    x, state, mask, memory_mask = inputs(layer("float64"), 1, 2)
    assert fast.step(x, state, mask=mask, memory_mask=memory_mask).shape == x.shape


def test_more_tokens_are_left_to_matrix_products() -> None:
    plain = layer("float64")
    x, state, mask, memory_mask = inputs(plain, 1, 0)
    assert compiled(plain, np.repeat(x, 2, axis=1), state, mask, memory_mask) is None
    assert compiled(plain, np.repeat(x, FEW_TOKENS + 1, axis=0), state, mask, memory_mask) is None
    assert compiled(plain, x, state, AttentionMask(causal=True), memory_mask) is None
    assert compiled(plain, x, state, mask, AttentionMask()) is None
    assert compiled(plain, x.astype(complex), state, mask, memory_mask) is None


def test_nothing_is_written_where_there_is_no_room() -> None:
    plain = layer("float64")
    x, state, mask, memory_mask = inputs(plain, 1, 0)
    full = AttentionMask(np.ones((1, MAX_LEN + 1), dtype=bool), causal=True, query_offset=MAX_LEN)
    assert compiled(plain, x, state, full, memory_mask) is None
    assert compiled(plain, x, state, AttentionMask(np.ones((1, 3), dtype=bool), query_offset=1), memory_mask) is None
    assert compiled(plain, x, state, mask, AttentionMask(np.ones((1, SOURCE + 1), dtype=bool))) is None
    assert compiled(plain, np.zeros((2, 1, WIDTH)), state, mask, memory_mask) is None
    assert compiled(plain, np.zeros((1, 1, WIDTH - 1)), state, mask, memory_mask) is None


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_a_nan_is_seen(activation: str) -> None:
    plain = layer("float64", activation=activation)
    plain.feed_forward.up.bias.data[3] = np.nan
    x, state, mask, memory_mask = inputs(plain, 1, 1)
    assert np.isnan(compiled(plain, x, state, mask, memory_mask)).all()
