"""Products of row-major views by a column-major library: the calls of cuBLAS compute what NumPy computes."""

import numpy as np
import pytest

from npformer.errors import ShapeError

KINDS = ["rows", "turned", "columns of a block", "turned columns of a block", "gaps", "broadcast", "backwards"]


@pytest.fixture
def one(runtimes):
    """A GPU; products do not depend on the size of blocks."""
    return runtimes.HostRuntime()


def of_kind(rng, kind, shape, dtype="float64"):
    """Random numbers of a shape that lie in memory in a certain way."""
    *batch, m, n = shape
    if "turned" in kind:
        return of_kind(rng, kind.replace("turned", "").strip(), (*batch, n, m), dtype).swapaxes(-1, -2)
    made = rng.normal(size=(*batch, m, 3 * n + 4)).astype(dtype)
    if kind == "gaps":
        return made[..., 1 : 2 * n : 2]
    if kind == "broadcast":
        return np.broadcast_to(made[..., :1, :n], shape)
    if kind == "backwards":
        return made[..., ::-1, :n]
    return made[..., n : 2 * n] if kind == "columns of a block" else np.ascontiguousarray(made[..., :n])


def heads(rng, b, t, h, d, dtype="float64", part=1):
    """(B, H, T, D), a view of the part-th columns of (B, T, 3C)."""
    block = rng.normal(size=(b, t, 3 * h * d)).astype(dtype)
    return block[..., part * h * d : (part + 1) * h * d].reshape(b, t, h, d).swapaxes(1, 2)


def called(runtime):
    """The names of cuBLAS's functions that were called since this was asked last."""
    names = [name.removeprefix("cublas") for name, _ in runtime.cublas.calls if "Gemm" in name]
    runtime.cublas.calls.clear()
    return names


def check(runtime, a, b, out, *, rtol=1e-12, **options):
    """The product, alone and added to what is there, with a scale."""
    runtime.product(a, b, out)
    true = np.matmul(a, b, dtype=np.float64)
    np.testing.assert_allclose(out, true, rtol=rtol, atol=rtol * np.abs(true).max(initial=1))
    runtime.product(a, b, out, add=True, scale=-0.25)
    np.testing.assert_allclose(out, 0.75 * true, rtol=rtol, atol=rtol * np.abs(true).max(initial=1))


@pytest.mark.parametrize("b_kind", KINDS)
@pytest.mark.parametrize("a_kind", KINDS)
def test_matrices_of_every_kind(one, a_kind, b_kind):
    rng = np.random.default_rng(1)
    sizes = [(5, 7, 3), (1, 4, 6), (4, 1, 6), (4, 6, 1), (1, 1, 1), (2, 8, 16)]
    for m, k, n in sizes:
        for out_kind in KINDS[:5]:
            out = of_kind(rng, out_kind, (m, n))
            check(one, of_kind(rng, a_kind, (m, k)), of_kind(rng, b_kind, (k, n)), out)


@pytest.mark.parametrize("kind", KINDS[:4])
def test_only_the_output_is_written_and_operands_in_lines_are_not_copied(one, monkeypatch, kind):
    rng = np.random.default_rng(2)
    monkeypatch.setattr(one, "contiguous", None)
    out = of_kind(rng, kind, (4, 5))
    whole = out if out.base is None else out.base
    before, address = whole.copy(), out.ctypes.data
    one.product(of_kind(rng, kind, (4, 3)), of_kind(rng, kind, (3, 5)), out)
    assert out.ctypes.data == address
    assert (whole != before).sum() == 20
    assert called(one) == ["GemmEx"]


def test_batches_at_equal_distances_are_one_call(one):
    rng = np.random.default_rng(4)
    a, b = rng.normal(size=(3, 4, 5, 6)), rng.normal(size=(3, 4, 6, 7))
    check(one, a, b, one.empty((3, 4, 5, 7), "float64"))
    check(one, a, b[0, 0], one.empty((3, 4, 5, 7), "float64"))  # the same matrix for all
    assert called(one) == ["GemmStridedBatchedEx"] * 4
    check(one, a[0, 0], b[0, 0], one.empty((5, 7), "float64"))
    check(one, a[:1, :1], b[0, 0], one.empty((1, 1, 5, 7), "float64"))
    assert called(one) == ["GemmEx"] * 4
    assert one.launched == []


def test_a_batch_repeats_one_matrix(one):
    rng = np.random.default_rng(5)
    check(one, rng.normal(size=(1, 4, 5, 6)), rng.normal(size=(3, 1, 6, 7)), one.empty((3, 4, 5, 7), "float64"))
    assert called(one) == ["GemmBatchedEx"] * 2


@pytest.mark.parametrize(("b", "t", "h", "d"), [(2, 3, 4, 8), (3, 1, 2, 5), (2, 7, 1, 3), (1, 4, 3, 2)])
def test_heads(one, b, t, h, d):
    """All the products of attention, on views of (B, T, 3C)."""
    rng = np.random.default_rng(6)
    q, k, v = (heads(rng, b, t, h, d, part=part) for part in range(3))
    weights = rng.normal(size=(b, h, t, t))
    merged = one.empty((b, t, h, d), "float64").swapaxes(1, 2)  # (B, H, T, D), so that merging heads is a view
    check(one, q, k.swapaxes(-1, -2), one.empty((b, h, t, t), "float64"))
    check(one, weights, v, merged)
    check(one, weights.swapaxes(-1, -2), q, merged)
    check(one, q, v.swapaxes(-1, -2), weights.copy())
    assert set(called(one)) == {"GemmBatchedEx" if b > 1 and h > 1 else "GemmStridedBatchedEx"}


def test_products_of_the_same_arrays_share_their_lists(one):
    """As attention's do, in either direction."""
    rng = np.random.default_rng(12)
    q, k, v = (heads(rng, 2, 3, 4, 8, part=part) for part in range(3))
    weights, out, other = (one.empty((2, 4, 3, n), "float64") for n in (3, 8, 8))
    lists = one.lists(q, k, v, weights, out)
    one.product(q, k.swapaxes(-1, -2), weights, lists=lists)
    np.testing.assert_allclose(weights, q @ k.swapaxes(-1, -2), rtol=1e-12)
    one.product(weights, v, out, lists=lists)
    np.testing.assert_allclose(out, weights @ v, rtol=1e-12)
    assert one.launched == ["products.matrix_addresses"]
    one.product(weights, k, other, lists=lists)  # of an array that was not named
    np.testing.assert_allclose(other, weights @ k, rtol=1e-12)
    assert one.launched == ["products.matrix_addresses"] * 2


def test_listed_matrices_are_aligned_or_called_one_by_one(runtimes):
    """Rounding kernels read 16 bytes at once; the stand-in fails as cuBLAS may where addresses do not allow it."""
    rng, runtime = np.random.default_rng(8), runtimes.HostRuntime("tf32")
    for d, names in ((8, {"GemmBatchedEx"}), (5, {"GemmStridedBatchedEx"})):
        q, k = (heads(rng, 2, 4, 3, d, "float32") for _ in range(2))
        out = runtime.empty((2, 4, 3, 4), "float32").swapaxes(1, 2)
        check(runtime, place(runtime, q), place(runtime, k).swapaxes(-1, -2), out, rtol=1e-2)
        assert set(called(runtime)) == names


def place(runtime, x):
    """x (B, H, T, D) in the GPU's memory, which is aligned, in the order (B, T, H, D)."""
    own = runtime.empty((x.shape[0], x.shape[2], x.shape[1], x.shape[3]), x.dtype)
    own[...] = x.swapaxes(1, 2)
    return own.swapaxes(1, 2)


def test_nothing_and_empty_sums(one):
    out = one.empty((3, 4), "float64")
    one.product(np.ones((3, 0)), np.ones((0, 4)), out)
    assert (out == 0).all()
    out[...] = 1
    assert (one.product(np.ones((3, 0)), np.ones((0, 4)), out, add=True) == 1).all()
    assert (one.product(np.ones((0, 3)), np.ones((3, 4)), out[:0]) == out[:0]).all()
    assert called(one) == []


@pytest.mark.parametrize(("precision", "bits"), [("float32", 23), ("tf32", 10)])
def test_precisions(runtimes, precision, bits):
    """Operands are rounded to so many bits behind the point, sums are float32's; float64 is never rounded."""
    rng, runtime = np.random.default_rng(9), runtimes.HostRuntime(precision)
    a, b = (rng.normal(size=(64, 64)).astype(np.float32) for _ in range(2))
    true, size = a.astype(np.float64) @ b, (np.abs(a) @ np.abs(b)).max()
    error = np.abs(runtime.product(a, b, runtime.empty((64, 64), "float32")) - true).max() / size
    half = 2.0 ** -(bits + 1)
    assert half / 50 < error < 2 * half + 64 * 2.0**-24  # two operands rounded, and 64 sums
    wide = runtime.product(a.astype(np.float64), b.astype(np.float64), runtime.empty((64, 64), "float64"))
    np.testing.assert_allclose(wide, true, rtol=1e-11)


def test_shapes_that_do_not_meet(one):
    out = np.ones((2, 3, 4))
    with pytest.raises(ShapeError, match=r"a: expected \(…, M, K\) = \(2, 3, 5\), got \(2, 2, 5\)"):
        one.product(np.ones((2, 2, 5)), np.ones((5, 4)), out)
    with pytest.raises(ShapeError, match=r"b: expected \(…, K, N\) = \(2, 5, 4\), got \(3, 5, 4\)"):
        one.product(np.ones((3, 5)), np.ones((3, 5, 4)), out)
