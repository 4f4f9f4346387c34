"""Attention in blocks of queries, and on heads that lie anyhow in memory."""

from functools import partial

import numpy as np
import pytest

from npformer.engine.numba import OPS, attention
from npformer.functional import AttentionMask, Draw
from tests.backend.conftest import Agreement

MASKS = {
    "none": {},
    "causal": {"causal": True},
    "causal, later": {"causal": True, "query_offset": 4},
    "causal, before all keys": {"causal": True, "window": 2, "query_offset": 3},
    "window": {"window": 3},
    "stride": {"stride": 4, "causal": True},
}
DRAWS = [None, Draw(3, 4, 1, 99, 0.4), Draw(3, 4, 0, 98, 0.1, first_row=5)]


agree = partial(Agreement(OPS), "attention")


@pytest.mark.parametrize("mask", MASKS.values(), ids=list(MASKS))
@pytest.mark.parametrize("draw", DRAWS, ids=["inference", "dropout", "later rows"])
@pytest.mark.parametrize(("queries", "keys"), [(9, 9), (7, 12), (12, 5), (1, 6), (0, 5)])
@pytest.mark.parametrize("at_once", [1, 4, 100])
def test_blocks_of_queries(mask, draw, queries, keys, at_once, monkeypatch):
    monkeypatch.setattr(attention, "FEWEST", 1)
    monkeypatch.setattr(attention, "BYTES_AT_ONCE", at_once * keys * 8)  # float64
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(2, 3, length, 4)) for length in (queries, keys, keys))
    visible = rng.random((2, keys)) < 0.7
    visible[:, :1] = False
    for kept in (0, attention.KEPT_KEYS):  # 0: without dropout, weights are computed again
        monkeypatch.setattr(attention, "KEPT_KEYS", kept)
        assert agree(q, k, v, AttentionMask(**mask), draw)
        assert agree(q, k, v, AttentionMask(key_visible=visible, **mask), draw)


def test_weights_over_many_keys_are_kept_only_if_some_are_dropped():
    most = attention.KEPT_KEYS
    for keys, draw, kept in ((most, None, True), (most + 1, None, False), (most + 1, DRAWS[1], True)):
        q, k = np.zeros((1, 2, 3, 4)), np.zeros((1, 2, keys, 4))
        assert attention.attention_forward(q, k, k, draw=draw)[1].weights.size == kept * 2 * 3 * keys


@pytest.mark.parametrize("layout", ["side by side", "turned", "gaps", "crooked", "one for all"])
def test_heads_in_any_memory_layout(layout):
    rng = np.random.default_rng(0)

    def make():
        x = rng.normal(size=(2, 5, 3, 12))  # (B, T, H, 3D)
        if layout == "turned":  # as keys are kept for decoding
            return x[..., :4].transpose(0, 2, 3, 1).copy().swapaxes(-1, -2)
        if layout == "gaps":
            return x[..., ::3].transpose(0, 2, 1, 3)
        if layout == "crooked":
            part = x[..., :4].transpose(0, 2, 1, 3)
            return np.frombuffer(bytes(1) + part.tobytes(), np.uint8)[1:].view(float).reshape(part.shape)
        if layout == "one for all":
            return np.broadcast_to(x[:1, :1, :1, :4], (2, 3, 5, 4))
        return x[..., 4:8].transpose(0, 2, 1, 3)

    assert agree(make(), make(), make(), AttentionMask(causal=True), DRAWS[1])
