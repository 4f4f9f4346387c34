"""Attention on a GPU, in each of its three ways: every kind of mask, dropout, any shape, rows of nothing, NaN."""

import numpy as np
import pytest

from npformer.backend import PLAIN
from npformer.engine.cuda import attention, cuda_ops
from npformer.engine.cuda.attention import MOST_ROWS, ROOM, WIDEST_HEAD, fits_one_tile, tile_rows
from npformer.functional import AttentionMask
from tests.backend import test_not_a_number as not_a_number
from tests.backend.numpy import test_attention as host
from tests.backend.numpy.test_attention import DRAW, POSITIONS, case, padded
from tests.engine.cuda import test_dropout as dropout

#: One number; odd sizes; no sequences; no queries; more than a tile; one query; heads so wide that tiles have few rows.
SHAPES = [(1, 1, 1, 1, 1), (2, 3, 4, 5, 6), (0, 2, 3, 3, 4), (2, 2, 0, 3, 4), (2, 1, 67, 70, 5), (1, 2, 1, 35, 33)]
WIDE = (1, 1, 21, 26, 256)


@pytest.fixture(params=["short", "products", "tiles"])
def way(request, monkeypatch):
    """Each way in turn, whatever the size asks for; but what does not fit into one tile is not put there."""

    def forced(q, k, mask):
        fits = fits_one_tile(q.shape[2], k.shape[2], q.shape[3], q.dtype)
        return "tiles" if request.param == "short" and not fits else str(request.param)

    monkeypatch.setattr(attention, "way", forced)
    return str(request.param)


@pytest.fixture
def table(runtime, way):
    return cuda_ops(runtime)


test_hidden_keys = host.test_hidden_keys_do_not_matter_however_large
test_a_query_that_sees_nothing = host.test_a_query_that_sees_nothing_gets_nothing
test_merging = host.test_merging_and_joining_what_comes_out_copies_nothing


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", POSITIONS)
def test_it_equals_the_plain_pair(agree, dtype, shape, name):
    q, k, v = case(dtype, shape)
    assert agree("attention", q, k, v, POSITIONS[name], None)
    assert agree("attention", q, k, v, padded(POSITIONS[name], shape[0], shape[3]), DRAW)


def test_wide_heads(agree, dtype):
    assert agree("attention", *case(dtype, WIDE), AttentionMask(causal=True), DRAW)


@pytest.mark.parametrize("keys", [1030, 8200])
def test_long_rows(agree, dtype, keys):
    """Longer than a warp shares, and than bits are drawn at once."""
    assert agree("attention", *case(dtype, (1, 1, 2, keys, 3)), AttentionMask(), DRAW)


def test_arrays_with_gaps(agree, dtype):
    """Views whose last axis has gaps, or runs backwards; one sequence for all; a mask that is a view."""
    q, k, v = (np.repeat(x, 2, axis=-1)[..., ::2] for x in case(dtype, (3, 2, 4, 5, 6)))
    visible = np.ones((3, 10), bool)[:, ::2]
    assert agree("attention", q, k[:, :, ::-1], v[..., ::-1], AttentionMask(visible), DRAW)
    assert agree("attention", q, np.broadcast_to(k[:1], k.shape), v, AttentionMask(causal=True), None)


@pytest.mark.parametrize("scale", [30.0, 1e4])
def test_saturated_scores_neither_overflow_nor_vanish(agree, way, dtype, scale):
    if way != "tiles":  # which takes δ as g·o, so that dp − δ is 0 but for rounding, and that times 1e4 is not
        host.test_saturated_scores_neither_overflow_nor_vanish(agree, dtype, scale)
    q, k, v = case(dtype, (2, 3, 4, 5, 6), scale)
    for name in ("all", "causal"):
        y, plain = (ops.attention.forward(q, k, v, POSITIONS[name], DRAW)[0] for ops in (agree.table, PLAIN))
        np.testing.assert_allclose(y, plain, rtol=1e-4, atol=1e-5)
    q, k, v = case(dtype, (2, 1, 3, 4, 2))
    assert agree("attention", np.abs(q), -scale * np.abs(k), v, AttentionMask(), None)  # all scores far below 0


def test_the_step_may_live_on_the_gpu(table):
    dropout.test_the_step_may_live_on_the_gpu(table, "attention")


@pytest.mark.parametrize("case", [case for case in not_a_number.CASES if case.startswith("attention")])
def test_no_number_where_there_is_none(table, case, dtype):
    not_a_number.test_no_number_where_there_is_none(table, case, dtype)


def test_invisible_tiles_are_skipped(runtime, monkeypatch):
    """What stands in them is not even read: NaN there reaches nobody."""
    monkeypatch.setattr(attention, "way", lambda *_: "tiles")
    table = cuda_ops(runtime)
    q, k, v = (x.copy() for x in case("float64", (1, 1, 200, 200, 64)))
    k[:, :, :60], v[:, :, :60] = np.nan, np.nan
    q[:, :, :60] = np.nan
    y, cache = table.attention.forward(q, k, v, AttentionMask(causal=True, window=5))
    dout = np.ones_like(y)
    found = [y, *table.attention.backward(dout, cache)]
    assert all(np.isfinite(x[:, :, 100:]).all() for x in found)
    q[:, :, :60], k[:, :, :60], v[:, :, :60] = 0, 0, 0
    plain, plain_cache = PLAIN.attention.forward(q, k, v, AttentionMask(causal=True, window=5))
    for x, true in zip(found, (plain, *PLAIN.attention.backward(dout, plain_cache)), strict=True):
        np.testing.assert_allclose(x[:, :, 100:], true[:, :, 100:], rtol=0, atol=1e-12)


SIZES = [  # B, H, T, S, D, mask, way
    (64, 4, 32, 32, 32, AttentionMask(), "short"), (32, 8, 64, 64, 32, AttentionMask(), "products"),
    (1, 8, 8192, 8192, 64, AttentionMask(), "tiles"), (1, 1, 100, 8192, 512, AttentionMask(), "products"),
    (1, 8, 2048, 2048, 64, AttentionMask(window=32), "tiles"),
    (1, 8, 2048, 2048, 64, AttentionMask(window=32, stride=64), "products"),
    (1, 8, 2048, 2048, 64, AttentionMask(window=1024), "products"), (0, 8, 100, 100, 64, AttentionMask(), "tiles"),
]  # fmt: skip


@pytest.mark.parametrize(("B", "H", "T", "S", "D", "mask", "expected"), SIZES)
def test_which_way(B, H, T, S, D, mask, expected):
    q, k = (np.broadcast_to(np.float32(0), (B, H, length, D)) for length in (T, S))
    assert attention.way(q, k, mask) == expected


def test_tiles_fit_into_a_block(dtype):
    """Room for every matrix and row that a kernel takes, counted here as it takes them."""
    size = np.dtype(dtype).itemsize
    for D in range(1, WIDEST_HEAD + 1):
        for matrices in (3, 5, 6):
            R = tile_rows(matrices, D, np.dtype(dtype))
            assert 1 <= R <= MOST_ROWS
            assert (matrices * R * (D + 1 - D % 2) + R * (R + 1 - R % 2) + 3 * R) * size <= ROOM
    for T in range(1, 65, 21):
        for S in range(1, 65, 20):
            largest = max(D for D in range(5000) if fits_one_tile(T, S, D, np.dtype(dtype)) or D == 0)
            wide, keys = largest | 1, S | 1
            assert ((2 * T + S) * wide + T * keys + 3 * T) * size <= ROOM or largest == 0
            assert ((T + S) * wide + 2 * T * keys + 2 * T) * size <= ROOM or largest == 0
