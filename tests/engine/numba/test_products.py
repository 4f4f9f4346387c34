"""Matrix products in kernels: every way in which matrices lie in memory, both kinds of product, threads."""

import ctypes
from functools import cache

import numba
import numpy as np
import pytest

from npformer.engine.numba import compiling, products
from npformer.engine.numba.arguments import Matrix, OutMatrix
from npformer.engine.numba.products import fits_blas, for_blas

BY_ROWS, BY_COLUMNS = 101, 102  # CBLAS's numbers for them
#: (m, k, n): one number, one row, one column, no rows, nothing to sum, odd sizes, large ones.
SIZES = [(1, 1, 1), (1, 5, 3), (5, 1, 3), (3, 5, 1), (0, 5, 3), (3, 5, 0), (3, 0, 4), (7, 9, 5), (65, 130, 67)]
LAYOUTS = {
    "rows": lambda x: x.copy(),
    "columns": lambda x: x.T.copy().T,
    "some columns of a wider one": lambda x: np.concatenate([x, x, x], axis=1)[:, x.shape[1] : 2 * x.shape[1]],
    "some rows of a higher one, turned": lambda x: np.concatenate([x, x, x], axis=0).T.copy()[:, : x.shape[0]].T,
}


@pytest.fixture(scope="module")
def product():
    """product(a, b, beta, c), compiled as kernels are, for any layout."""

    def made(a: Matrix, b: Matrix, beta: int, c: OutMatrix):
        products.product(a, b, beta, c)

    kernel = compiling.Kernel(numba.njit(nogil=True)(made))
    kernel.dispatcher._can_compile = True
    for dtype in compiling.DTYPES:
        kernel.dispatcher.compile(numba.void(*kernel.types(dtype)))
    kernel.dispatcher.disable_compile()  # else each layout has a kernel of its own
    return kernel


def test_a_product_or_a_product_added(product, dtype):
    rng = np.random.default_rng(0)
    close = {"float32": 1e-4, "float64": 1e-12}[dtype]
    for m, k, n in SIZES:
        a, b, c = (np.asarray(rng.normal(size=s)).astype(dtype) for s in ((m, k), (k, n), (m, n)))
        for names in np.ndindex(4, 4, 4):
            lay_a, lay_b, lay_c = (list(LAYOUTS.values())[i] for i in names)
            for beta in (0, 1):
                y = lay_c(c if beta else np.full_like(c, np.nan))  # what was there does not count
                product(lay_a(a), lay_b(b), beta, y)
                np.testing.assert_allclose(y, a @ b + beta * c, rtol=close, atol=close, err_msg=f"{m, k, n} {names}")


def test_only_the_columns_that_are_meant_are_written(product, dtype):
    wide = np.full((4, 9), 7, dtype)
    product(np.ones((4, 2), dtype), np.ones((2, 3), dtype), 1, wide[:, 3:6])
    assert (wide == [7, 7, 7, 9, 9, 9, 7, 7, 7]).all()


def buffer(rng, order, shape, dtype):
    """Random memory with gaps, the matrix of this shape in it, and how far its lines are apart."""
    lines, length = shape if order == BY_ROWS else shape[::-1]
    whole = np.asarray(rng.normal(size=(lines, length + 3))).astype(dtype)
    return whole, whole[:, :length] if order == BY_ROWS else whole[:, :length].T, length + 3


@cache
def own_gemm(dtype):
    """The product that npformer brings along, compiled once."""
    return products.own_product(getattr(numba, dtype)).ctypes


@pytest.mark.parametrize("order", [BY_ROWS, BY_COLUMNS])
@pytest.mark.parametrize("turned", list(np.ndindex(2, 2)), ids=str)
@pytest.mark.parametrize("beta", [0, 1])
def test_the_replacement_of_a_missing_product(order, turned, beta, dtype):
    """Called as CBLAS is: an order, two matrices turned or not, and c."""
    gemm, rng = own_gemm(dtype), np.random.default_rng(0)
    number = gemm.argtypes[7]
    for m, k, n in SIZES:
        a_memory, a, lda = buffer(rng, order, (k, m) if turned[0] else (m, k), dtype)
        b_memory, b, ldb = buffer(rng, order, (n, k) if turned[1] else (k, n), dtype)
        c_memory, c, ldc = buffer(rng, order, (m, n), dtype)
        true = (a.T if turned[0] else a) @ (b.T if turned[1] else b) + beta * c
        gaps = c_memory[:, -3:].copy()
        if not beta:
            c[...] = np.nan  # what was there does not count
        a_at, b_at, c_at = (ctypes.cast(x.ctypes.data, number) for x in (a_memory, b_memory, c_memory))
        gemm(order, 111 + turned[0], 111 + turned[1], m, n, k, 1.0, a_at, lda, b_at, ldb, float(beta), c_at, ldc)
        close = {"float32": 1e-4, "float64": 1e-12}[dtype]
        np.testing.assert_allclose(c, true, rtol=close, atol=close)
        assert np.array_equal(c_memory[:, -3:], gaps)


def test_adjacent_arrays_are_not_copied_and_others_are():
    x = np.arange(24.0).reshape(4, 6)
    heads = np.arange(48.0).reshape(2, 3, 2, 4).transpose(0, 2, 1, 3)
    fine = [x, x.T, x[:, 1:4], x[:, 1:4].T, x[::2], x[:1], x[:, :1].copy(), heads, heads.swapaxes(-1, -2), x[:0]]
    for y in fine:
        assert for_blas(y) is y
    crooked = np.frombuffer(bytes(1) + x.tobytes(), dtype=np.uint8)[1:].view(x.dtype).reshape(x.shape)
    split = np.frombuffer(bytes(200), dtype=np.uint8)[:180].reshape(4, 45)[:, :40].view(x.dtype)
    for y in (x[:, ::2], x[:, ::-1], x[::-1], np.broadcast_to(x[0], (4, 6)), crooked, split, heads[..., ::2]):
        assert not fits_blas(y)
        assert np.array_equal(for_blas(y), y)
        assert for_blas(y).flags.carray
