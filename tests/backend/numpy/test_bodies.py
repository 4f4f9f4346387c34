"""The NumPy backend's own bodies against the plain ones: dropout bits and the embedding's gradient."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from npformer.backend import PLAIN, Ops, get_backend
from npformer.backend.numpy.philox import philox_bits as fast_bits
from npformer.backend.ops import DRAWING
from npformer.functional import Draw, philox_bits

OPS = get_backend("numpy").ops


def test_these_and_no_others_are_replaced() -> None:
    replaced = {f.name for f in dataclasses.fields(Ops) if getattr(OPS, f.name) is not getattr(PLAIN, f.name)}
    assert replaced == {"embedding", *DRAWING}


@pytest.mark.parametrize("size", [0, 1, 3, 4, 5, 16, 17, 4099])
def test_bits_are_equal(size: int) -> None:
    rng = np.random.default_rng(size)
    for _ in range(5):
        seed, step, micro, site = (int(n) for n in rng.integers(0, 2**64, size=4, dtype=np.uint64))
        draw = Draw(seed, step, micro, site, 0.1)
        fast = fast_bits(draw, size, np.ones(1))
        assert fast.shape == (size,)
        assert np.array_equal(fast, philox_bits(draw, size, np.ones(1)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("num_rows", "tokens"), [(1, (4,)), (5, (2, 7)), (50, (3, 40)), (7, (1, 1)), (9, (0, 3))])
def test_the_embeddings_gradient_is_equal(dtype: str, num_rows: int, tokens: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    ids, table = rng.integers(0, num_rows, size=tokens), rng.normal(size=(num_rows, 6)).astype(dtype)
    dy = np.asfortranarray(rng.normal(size=(*tokens, 6)).astype(dtype))
    y, cache = OPS.embedding.forward(ids, table, 1.5)
    y_plain, cache_plain = PLAIN.embedding.forward(ids, table, 1.5)
    fast, plain = OPS.embedding.backward(dy, cache), PLAIN.embedding.backward(dy, cache_plain)
    assert np.array_equal(y, y_plain)
    assert fast.dtype == plain.dtype == dtype
    np.testing.assert_allclose(fast, plain, rtol=1e-5 if dtype == "float32" else 1e-13, atol=1e-6)
    assert np.array_equal(fast, OPS.embedding.backward(dy, cache))  # bit-equal, run after run
