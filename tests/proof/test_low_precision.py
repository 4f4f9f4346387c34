"""Kernels in 32 and 16 bits: right within what rounding allows, WRONG beyond it, by a reference or without one."""

import re

import numpy as np
import pytest

from npformer.errors import ConfigError
from npformer.layers import LayerNorm
from npformer.proof import gradcheck
from npformer.proof.report import RIGHT, UNCLEAR, WRONG
from tests.proof.functions import (
    Forgetful,
    chain,
    chain_backward,
    normal,
    normals,
    of_softmax,
    row_mean,
    softmax_slope,
    verdicts,
)


def inputs_of(seed):
    """x, γ and β."""
    draw = normals(seed)
    return draw(4, 8), 1 + 0.3 * draw(8), 0.3 * draw(8)


X, GAMMA, BETA = inputs_of(11)


def bfloat16(x):
    """Rounded to 8 bits of mantissa, to even, and kept as float32."""
    bits = np.asarray(x, dtype=np.float32).view(np.uint32)
    half = 0x7FFF + ((bits >> 16) & 1)
    return ((bits + half) & np.uint32(0xFFFF0000)).astype(np.uint32).view(np.float32)


def same(x):
    return x


def softmax(rounded=same, has_sum=True):
    def forward(x):
        y = rounded(of_softmax(x))
        return y, y

    def backward(dy, y):
        return rounded(softmax_slope(dy, y) if has_sum else y * dy)

    return forward, backward


def layer_norm(rounded=same, has_x_hat_term=True, factor=1):
    def forward(x, gamma, beta):
        centred = x - row_mean(x)
        r = 1 / np.sqrt(row_mean(centred * centred) + np.asarray(1e-5, x.real.dtype))
        x_hat = rounded(centred * r)
        return rounded(gamma * x_hat + beta), (x_hat, rounded(r), gamma)

    def backward(dy, cache):
        x_hat, r, gamma = cache
        g = dy * gamma
        along = x_hat * row_mean(g * x_hat) if has_x_hat_term else 0
        dx = r * (g - row_mean(g) - along) * np.asarray(factor, dy.dtype)
        return rounded(dx), rounded(np.sum(dy * x_hat, axis=0)), rounded(dy.sum(axis=0))

    return forward, backward


#: (dtype of the numbers, how the kernel rounds, the option precision)
KERNELS = {
    "float32": ("float32", same, None),
    "float16": ("float16", same, None),
    "bfloat16": ("float32", bfloat16, "bfloat16"),
}
ALL = pytest.mark.parametrize("name", KERNELS)


def checked(make, name, reference=None, **spoiled):
    dtype, rounded, precision = KERNELS[name]
    inputs = [x.astype(dtype) for x in ((X,) if make is softmax else (X, GAMMA, BETA))]
    if reference is None:
        precision = precision or dtype
    return gradcheck(make(rounded, **spoiled), *inputs, reference=reference, precision=precision)


@ALL
@pytest.mark.parametrize("make", [softmax, layer_norm])
def test_a_right_kernel_is_right_by_a_reference_and_never_wrong(make, name):
    pair = make()
    for reference in (pair, lambda *inputs: pair[0](*inputs)[0], None):
        report = checked(make, name, reference)
        assert set(verdicts(report).values()) <= {RIGHT, UNCLEAR}, report
        assert report.problems == ()
        if reference is not None and name != "bfloat16":  # of long sums that may allow more than tells anything
            assert report.ok, report
            assert all(row.note.startswith(f"in {name}, ") for row in report.rows)


@pytest.mark.parametrize("seed", range(6))
def test_a_right_bfloat16_kernel_is_not_wrong_by_differences_of_its_own(seed):
    """Its numbers come as float32, but steps and noise must be those of bfloat16."""
    given = [x.astype(np.float32) for x in inputs_of(seed)]
    report = gradcheck(layer_norm(bfloat16), *given, precision="bfloat16", seed=seed)
    assert WRONG not in verdicts(report).values()


@ALL
@pytest.mark.parametrize("has_reference", [True, False])
def test_a_missing_term_is_wrong(has_reference, name):
    report = checked(layer_norm, name, layer_norm() if has_reference else None, has_x_hat_term=False)
    assert report.rows[0].verdict == WRONG
    assert WRONG not in {row.verdict for row in report.rows[1:]}


@pytest.mark.parametrize("name", ["float32", "float16"])
def test_a_softmax_without_its_sum_is_wrong(name):
    assert verdicts(checked(softmax, name, softmax(), has_sum=False)) == {"x": WRONG}


@pytest.mark.parametrize(("factor", "verdict"), [(1, RIGHT), (1.0001, WRONG), (1.01, WRONG)])
def test_float32_with_a_reference_tells_a_factor_of_1_0001(factor, verdict):
    report = checked(layer_norm, "float32", layer_norm(), factor=factor)
    assert [row.verdict for row in report.rows] == [verdict, RIGHT, RIGHT]


@pytest.mark.parametrize(("has_x_hat_term", "verdict"), [(True, RIGHT), (False, WRONG)])
def test_float32_without_a_reference_is_judged_by_its_own_forward(has_x_hat_term, verdict):
    report = checked(layer_norm, "float32", has_x_hat_term=has_x_hat_term)
    assert [row.verdict for row in report.rows] == [verdict, RIGHT, RIGHT]
    (note,) = report.notes
    assert note.startswith("no reference: differences of the float32 forward itself decide; reference=(a float64 pair")


def test_what_cannot_be_told_without_a_reference_says_that_one_would_help():
    report = checked(layer_norm, "bfloat16")
    assert UNCLEAR in verdicts(report).values()
    for row in report.rows:
        if row.verdict == UNCLEAR:
            assert row.note.endswith("; give reference=, a float64 pair or forward")
    assert not report.ok


def test_a_layer_in_float32_is_its_own_reference_in_float64(numpy64):
    x = normal(2, 3, 4).astype(np.float32)
    right, wrong = LayerNorm(4, backend=numpy64), Forgetful(4, backend=numpy64)
    assert gradcheck(right, x, reference=right).ok
    assert [row.verdict for row in gradcheck(wrong, x, reference=right).rows] == [WRONG, RIGHT, RIGHT]


ONE_OF = "precision: expected one of float32, float16, bfloat16, or inputs that have it, got"
EXP = (lambda x: (np.exp(x), np.exp(x)), lambda dy, y: dy * y)


@pytest.mark.filterwarnings("ignore:overflow")
def test_an_overflow_is_told():
    report = gradcheck(EXP, np.array([1, 12, 3, 0.5], dtype=np.float16), reference=EXP)
    assert report.problems == ("output 0 overflows: 1 of 4 entries are not finite in float16, all are in float64",)
    (row,) = report.rows
    assert (row.verdict, row.note) == (WRONG, "1 of 4 entries are not finite in float16")


def test_a_forward_that_computes_something_else_is_told():
    report = gradcheck(softmax(), X.astype(np.float32), reference=lambda x: softmax()[0](1.01 * x)[0])
    (problem,) = report.problems
    assert re.fullmatch(
        r"output 0 is not the reference's: off by \d\.\de-03 of the largest, more than float32 explains", problem
    )
    assert not report.ok


@pytest.mark.parametrize(
    ("x", "reference", "precision", "text"),
    [
        (X.astype(np.float32), lambda x: x.sum(axis=-1), None,
         "reference: expected outputs of the kernel's shapes, [(4, 8)], got [(4,)]"),
        (X, softmax(), None, f"{ONE_OF} float64; a float64 kernel needs no reference"),
        (X, None, "float8", f"{ONE_OF} float8"),
    ],
    ids=["shapes", "float64", "float8"],
)  # fmt: skip
def test_what_cannot_be_compared_is_refused(x, reference, precision, text):
    with pytest.raises(ConfigError, match=f"^{re.escape(text)}"):
        gradcheck(softmax(), x, reference=reference, precision=precision)


def test_names_and_lists_serve_here_too():
    w, v = (x.astype(np.float32) for x in (normal(8, 3), normal(3, 2)))
    pair, names = (chain, chain_backward), ["in", "layers"]
    report = gradcheck(pair, X.astype(np.float32), [w, v], reference=chain, names=names)
    assert verdicts(report) == {"in": RIGHT, "layers[0]": RIGHT, "layers[1]": RIGHT}
