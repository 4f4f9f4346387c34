"""Products with a bias: cuBLASLt computes them, or says that it cannot, and then nothing was done."""

import numpy as np
import pytest

from npformer.engine.cuda.linear import affine
from tests.engine.cuda.test_products import of_kind

LAYOUTS = ["rows", "turned", "columns of a block"]


@pytest.fixture
def one(runtimes):
    return runtimes.HostRuntime("tf32")


def on(runtime, x):
    """x in the GPU's memory, which is aligned."""
    own = runtime.empty(x.shape, x.dtype)
    own[...] = x
    return own


def asked(runtime):
    return [name for name, _ in runtime.cublas.calls if "Heuristic" in name]


def case(runtime, dtype="float64", sizes=(5, 3, 7), kinds=("rows", "rows", "rows")):
    m, k, n = sizes
    rng = np.random.default_rng(1)
    a, b, out = (of_kind(rng, kind, shape, dtype) for kind, shape in zip(kinds, ((m, k), (k, n), (m, n)), strict=True))
    return a, b, on(runtime, rng.normal(size=n).astype(dtype)), out


@pytest.mark.parametrize("b_kind", LAYOUTS)
@pytest.mark.parametrize("a_kind", [*LAYOUTS, "gaps"])
@pytest.mark.parametrize("out_kind", ["rows", "columns of a block"])
def test_every_layout(one, a_kind, b_kind, out_kind):
    a, b, bias, out = case(one, kinds=(a_kind, b_kind, out_kind))
    assert one.biased_product(a, b, bias, out)
    np.testing.assert_allclose(out, a @ b + bias, rtol=1e-13)
    assert one.launched == []
    assert one.cublas.light.alive == 0, "what was made is destroyed"


@pytest.mark.parametrize("precision", ["float32", "tf32"])
def test_every_precision_is_that_of_a_product_alone(runtimes, precision):
    runtime = runtimes.HostRuntime(precision)
    a, b, bias, out = case(runtime, "float32")
    assert runtime.biased_product(a, b, bias, out)
    alone = runtime.product(a, b, runtime.empty(out.shape, "float32"))
    np.testing.assert_array_equal(out, alone + bias)


def test_the_library_is_asked_once_for_each_kind_of_product(one):
    a, b, bias, out = (on(one, x) for x in case(one))
    for _ in range(3):
        assert one.biased_product(a, b, bias, out)
    assert len(asked(one)) == 1
    assert one.biased_product(a, b, bias, on(one, out)[:, :7])
    assert len(asked(one)) == 1
    assert one.biased_product(a[:4], b, bias, out[:4])
    assert one.biased_product(a[1:], b, bias, out[1:])  # as large, but with another alignment
    assert len(asked(one)) == 3


@pytest.mark.parametrize(
    "why", ["one row", "one column", "a bias in between", "no kernel", "a refusal", "columns first", "nothing"]
)
def test_what_it_does_not_do(one, why):
    a, b, bias, out = case(one, sizes={"one row": (1, 3, 7), "one column": (5, 3, 1)}.get(why, (5, 3, 7)))
    if why == "a bias in between":
        bias = on(one, np.ones(8))[1:]
    if why == "no kernel":
        one.cublas.light.lacks = lambda data_type: data_type == 1
    one.cublas.light.refuses = why == "a refusal"  # PyTorch met such answers: its pull request 92201
    if why == "columns first":
        out = np.asfortranarray(out)
    if why == "nothing":
        a, b = a[:, :0], b[:0]
    before = out.copy()
    assert not one.biased_product(a, b, bias, out)
    np.testing.assert_array_equal(out, before)
    assert one.cublas.light.alive == 0
    if why != "columns first":  # a linear map's output never is
        affine(one, a, b, bias, out)
        np.testing.assert_allclose(out, a @ b + bias, rtol=1e-13)
        assert one.launched == ["linear.add_bias"]


@pytest.mark.parametrize("when", ["asked", "run"])
def test_a_refusal_is_kept(one, when):
    a, b, bias, out = case(one)
    one.cublas.light.lacks, one.cublas.light.refuses = lambda data_type: when == "asked", when == "run"
    assert not any(one.biased_product(a, b, bias, out) for _ in range(3))
    assert len(asked(one)) == 1
    assert [name for name, _ in one.cublas.calls].count("cublasLtMatmul") == (when == "run")
