"""Kernels in 32 and 16 bits: right within what rounding allows, WRONG beyond it, by a reference or without one."""

import re

import numpy as np
import pytest

from benchmarks.corpus.rounding import tf32_product
from npformer.check import gradcheck
from npformer.check.report import KINK, RIGHT, UNCLEAR, WRONG
from npformer.errors import ConfigError
from npformer.interop import from_torch
from npformer.layers import LayerNorm, MultiHeadAttention
from tests.check.functions import (
    GELU,
    Forgetful,
    chain,
    chain_backward,
    gelu,
    gelu_backward,
    normal,
    normals,
    of_softmax,
    row_mean,
    softmax_slope,
    tanh,
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
    return gradcheck(make(rounded, **spoiled), *inputs, reference=reference, precision=precision, explain=False)


@ALL
@pytest.mark.parametrize("make", [softmax, layer_norm])
def test_a_right_kernel_is_right_by_a_pair_and_by_a_forward_and_never_wrong(make, name):
    pair = make()
    for reference in (pair, lambda *inputs: pair[0](*inputs)[0], None):
        report = checked(make, name, reference)
        assert set(verdicts(report).values()) <= {RIGHT, UNCLEAR}, report
        assert report.problems == ()
        if reference is not None:
            assert report.ok, report
            for row in report.rows:
                assert re.match(rf"in {name}, an error of \d\.\de-\d\d of the gradient would have shown", row.note)


@pytest.mark.parametrize("seed", range(2))
def test_a_right_bfloat16_kernel_is_not_wrong_by_differences_of_its_own(seed):
    """Its numbers come as float32, but steps and noise must be those of bfloat16."""
    inputs = [x.astype(np.float32) for x in inputs_of(seed)]
    report = gradcheck(layer_norm(bfloat16), *inputs, precision="bfloat16", seed=seed)
    assert WRONG not in verdicts(report).values()


@ALL
@pytest.mark.parametrize("has_reference", [True, False])
def test_a_missing_term_is_wrong(has_reference, name):
    report = checked(layer_norm, name, layer_norm() if has_reference else None, has_x_hat_term=False)
    assert report.rows[0].verdict == WRONG
    assert WRONG not in {row.verdict for row in report.rows[1:]}


@pytest.mark.parametrize(
    ("mistake", "note"),
    [
        ({"has_x_hat_term": False}, r"as if `- along` were missing: -1(\.0\d*)? ± 0\.\d+ of it"),
        ({"factor": 1.1}, r"1\.(09|1)\d* ± 0\.\d+ times the reference's gradient"),
    ],
    ids=["term", "factor"],
)
def test_a_missing_term_and_a_factor_are_named_by_their_coefficients(mistake, note):
    row = checked(layer_norm, "bfloat16", layer_norm(), **mistake).rows[0]
    assert row.verdict == WRONG
    assert re.fullmatch(f"in bfloat16, {note}, at 12 points nearby", row.note)


def test_what_would_not_have_shown_is_told():
    """A factor of 1.002 is less than one rounding in bfloat16; the report says how small an error shows."""
    row = checked(layer_norm, "bfloat16", layer_norm(), factor=1.002).rows[0]
    assert row.verdict == RIGHT
    least = float(re.search(r"an error of (\S+) of the gradient", row.note)[1])
    assert 0.002 < least < 0.02
    assert "so would the loss of `g`, `- row_mean(g)`" in row.note


def test_float32_with_a_reference_tells_a_factor_of_1_0001():
    report = checked(layer_norm, "float32", layer_norm(), factor=1.0001)
    assert [row.verdict for row in report.rows] == [WRONG, RIGHT, RIGHT]


def test_without_a_reference_its_own_forward_decides_or_says_that_one_would_help():
    report = checked(layer_norm, "float32")
    assert [row.verdict for row in report.rows] == [RIGHT, RIGHT, RIGHT]
    assert report.notes[0].startswith("no reference: differences of the float32 forward itself decide")
    report = checked(layer_norm, "bfloat16")
    (note,) = {row.note.rpartition("; ")[2] for row in report.rows if row.verdict == UNCLEAR}
    assert note == "give reference=, a float64 pair or forward"
    assert not report.ok


def test_a_layer_in_float32_is_its_own_reference_in_float64(numpy64):
    x = normal(2, 3, 4).astype(np.float32)
    right, wrong = LayerNorm(4, backend=numpy64), Forgetful(4, backend=numpy64)
    assert gradcheck(right, x, reference=right).ok
    assert [row.verdict for row in gradcheck(wrong, x, reference=right).rows] == [WRONG, RIGHT, RIGHT]


ONE_OF = "expected one of float64, float32, tf32, float16, bfloat16"
EXP = (lambda x: (np.exp(x), np.exp(x)), lambda dy, y: dy * y)


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
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
        (np.arange(3), None, "float8", f"precision: {ONE_OF}, got float8"),
        (np.arange(3), softmax(), None, f"precision: {ONE_OF}, or inputs that have it, got no float array"),
    ],
    ids=["shapes", "float8", "nothing"],
)  # fmt: skip
def test_what_cannot_be_compared_is_refused(x, reference, precision, text):
    with pytest.raises(ConfigError, match=f"^{re.escape(text)}"):
        gradcheck(softmax(), x, reference=reference, precision=precision)


def test_names_and_lists_serve_here_too():
    w, v = (x.astype(np.float32) for x in (normal(8, 3), normal(3, 2)))
    pair, names = (chain, chain_backward), ["in", "layers"]
    report = gradcheck(pair, X.astype(np.float32), [w, v], reference=chain, names=names)
    assert verdicts(report) == {"in": RIGHT, "layers[0]": RIGHT, "layers[1]": RIGHT}


#: A maximum feeds its gradient to the first largest entry; the wrong ones to none, or to the second largest.
def row_max(rank=-1, scale=1.0):
    def forward(x):
        chosen = np.argsort(x.real, axis=-1, kind="stable")[:, rank if rank < 0 else -1 :][:, :1]
        largest = np.argmax(x.real, axis=-1)[:, None]
        return np.take_along_axis(x, largest, axis=-1)[:, 0], (x.shape, chosen)

    def backward(dy, cache):
        dx = np.zeros(cache[0], dtype=dy.dtype)
        np.put_along_axis(dx, cache[1], scale * dy[:, None], axis=-1)
        return dx

    return forward, backward


@ALL
def test_few_wrong_entries_among_many_zeros_are_wrong(name):
    """The truth is 0 nearly everywhere: an entry's own limit decides, no median of all."""
    dtype, _, precision = KERNELS[name]
    x = np.random.default_rng(3).uniform(0, 1, size=(2, 40))
    x[[0, 1], [7, 30]] = 1.5, 1.25
    x[[0, 1], [9, 2]] = 1.125, 1.0625
    for reference, kernel, verdict in (
        (row_max(), row_max(), RIGHT),
        (row_max(), row_max(-2), WRONG),
        (lambda x: row_max()[0](x)[0], row_max(scale=0.0), WRONG),
    ):
        report = gradcheck(kernel, x.astype(dtype), reference=reference, precision=precision, explain=False)
        assert verdicts(report) == {"x": verdict}, report


def relu(x):
    return np.where(x.real > 0, x, 0)


RELU = (lambda x: (relu(x), x), lambda dy, x: dy * (x > 0))


@pytest.mark.parametrize("reference", [RELU, relu], ids=["pair", "forward"])
def test_a_kink_is_told_as_in_float64(reference):
    x = X.astype(np.float16)
    x[1, 2] = 0
    report = gradcheck(RELU, x, reference=reference)
    assert verdicts(report) == {"x": KINK}
    assert report.rows[0].note.startswith("by the reference in float64: ")


@pytest.mark.parametrize("reference", [tanh(), np.tanh], ids=["pair", "forward"])
def test_a_saturated_kernel_that_loses_all_digits_is_not_wrong(reference):
    """tanh(18.5) is 1 in float32, and 1 − 1·1 is 0 where the truth is 3e-16: no NaN, no accusation."""
    report = gradcheck(tanh(), np.array([0.3, 18.5], dtype=np.float32), reference=reference)
    assert report.ok, report
    assert report.rows[0].unjudged == 1


@pytest.mark.parametrize("reference", [GELU, lambda x: gelu(x)[0]])
def test_a_gelu_with_the_usual_backward_is_right_where_it_saturates(reference):
    x = np.array([0.3, -0.7, -4], dtype=np.float32)
    assert gradcheck(GELU, x, reference=reference).ok


@pytest.mark.parametrize("by", ["pair", "torch"])
def test_pytorch_s_own_gelu_is_not_wrong(by):
    functional = pytest.importorskip("torch").nn.functional
    target = from_torch(lambda x: functional.gelu(x, approximate="tanh"))
    for seed in range(3):
        x = (6 * np.random.default_rng(seed).normal(size=(4, 8))).astype(np.float32)
        report = gradcheck(target, x, reference=GELU if by == "pair" else target, seed=seed)
        assert set(verdicts(report).values()) <= {RIGHT, UNCLEAR}, report
        assert report.problems == ()


@pytest.mark.parametrize("kept", [lambda x: x, lambda x: np.array(x)], ids=["input", "copy"])
def test_a_reference_that_computes_outside_of_numpy_is_told_whatever_it_keeps(kept):
    """Where its roundings were not seen at all, a right kernel would be WRONG."""
    outside = lambda x: np.array(np.asarray(x))  # noqa: E731
    reference = (
        lambda x: (gelu(outside(x))[0], kept(x)),
        lambda dy, x: gelu_backward(outside(dy), gelu(outside(x))[1]),
    )
    report = gradcheck(GELU, normal(4, 8).astype(np.float32) * 3, reference=reference)
    assert report.ok, report
    assert report.notes[-1].startswith("the reference computes outside of NumPy")


def test_a_gradient_of_its_own_is_declared_by_a_reference_in_float64():
    """Straight through: the forward rounds, and the backward is that of the identity."""
    straight = (lambda x: (np.round(x.real), None), lambda dy, _: dy)
    x = np.array([0.3, 1.2, -0.7])
    report = gradcheck(straight, x, reference=straight)
    assert report.ok
    assert report.notes == (
        "a declared gradient: the reference's backward is not the derivative of its forward, for x; the kernel is "
        "compared with the declared one",
    )
    assert verdicts(gradcheck((straight[0], lambda dy, _: 2 * dy), x, reference=straight)) == {"x": WRONG}
    low = gradcheck(straight, x.astype(np.float32), reference=straight)
    assert verdicts(low) == {"x": UNCLEAR}
    (problem,) = low.problems
    assert problem.startswith("reference: its own gradient of x is not the derivative of its forward in float64; check")


def test_other_points_and_sizes_are_judged_against_the_reference_too():
    def spoiled(dy, y):
        return softmax()[1](dy, y) if y.shape[-1] != 33 else dy * y

    def drawn(rng):
        return (rng.normal(size=(3, 7)).astype(np.float32),)

    pair, here = softmax(), X.astype(np.float32)
    assert gradcheck(pair, here, reference=pair, sample=drawn).ok
    sized = lambda n: (np.random.default_rng(n).normal(size=(3, n)).astype(np.float32),)  # noqa: E731
    report = gradcheck((pair[0], spoiled), here, reference=pair, sizes=sized, explain=False)
    assert verdicts(report) == {"x": WRONG}
    assert report.rows[0].note.endswith("; at size 33")


def test_of_a_large_input_a_forward_alone_is_sampled_and_says_so():
    x = normal(3, 340).astype(np.float32)
    forward = lambda x: softmax()[0](x)[0]  # noqa: E731
    report = gradcheck(softmax(), x, reference=forward)
    assert report.ok
    assert report.notes[-1].startswith(
        "a forward alone is differentiated once for each entry: 100 of 1020 entries and 4 "
    )
    assert verdicts(gradcheck(softmax(has_sum=False), x, reference=forward, explain=False)) == {"x": WRONG}


def test_products_in_tf32_are_right_in_tf32_alone():
    def product(x, w):
        return tf32_product(x, w), (x, w)

    def product_backward(dy, cache):
        return tf32_product(dy, cache[1].T), tf32_product(cache[0].T, dy)

    exact = (lambda x, w: (x @ w, (x, w)), lambda dy, cache: (dy @ cache[1].T, cache[0].T @ dy))
    x, w = (a.astype(np.float32) for a in (normal(6, 8), normal(8, 5)))
    assert gradcheck((product, product_backward), x, w, reference=exact, precision="tf32").ok
    assert not gradcheck((product, product_backward), x, w, reference=exact, explain=False).ok


def test_what_float16_loses_next_to_zero_is_told():
    scaled = (lambda x: (x * np.asarray(1e-6, x.real.dtype), None), lambda dy, _: dy * np.asarray(1e-6, dy.dtype))
    row = gradcheck(scaled, X.astype(np.float16), reference=scaled).rows[0]
    assert "entries are below float16's smallest normal number, 6.1e-05: scale the loss" in row.note


def test_a_gradient_that_cancels_to_nothing_has_the_rounding_of_the_others(numpy32, numpy64):
    """The bias of keys shifts all scores of a row alike, so its gradient is 0 but for rounding."""
    x = normal(3, 5, 6).astype(np.float32)
    layers = [MultiHeadAttention(6, 2, backend=backend, seed=1) for backend in (numpy32, numpy64)]
    report = gradcheck(layers[0], x, x, reference=layers[1], precision="float32")
    assert report.ok, report


def log_sum_exp(total):
    def forward(x):
        powers = np.exp(x)
        s = total(powers)
        return np.log(s), (powers, s)

    return forward, lambda dy, cache: dy * cache[0] / cache[1]


def added_in_bfloat16(x):
    total = np.zeros_like(x[:, :1])
    for i in range(x.shape[1]):
        total = bfloat16(total + x[:, i : i + 1])
    return total


@pytest.mark.parametrize(("accumulate", "expected"), [(None, WRONG), ("float64", WRONG), ("bfloat16", RIGHT)])
def test_sums_in_few_digits_are_right_if_the_check_is_told_of_them(accumulate, expected):
    x = 0.3 * normal(3, 32).astype(np.float32)
    reference = log_sum_exp(lambda x: x.sum(axis=-1, keepdims=True))
    report = gradcheck(log_sum_exp(added_in_bfloat16), x, reference=reference, accumulate=accumulate, explain=False)
    assert (verdicts(report), report.ok) == ({"x": expected}, expected == RIGHT)


def steep(c, rounded=same, seen=same):
    """exp(cx), whose exponent is rounded."""

    def forward(x):
        y = np.exp(rounded(seen(x) * np.asarray(c, x.dtype)))
        return y, y

    return forward, lambda dy, y: rounded(seen(dy) * np.asarray(c, dy.dtype) * y)


def test_a_constant_of_the_forward_that_is_rounded_is_no_mistake():
    """10.07 is 10.0625 in bfloat16, and a gradient with exp(10.07x) changes by more than that."""
    x = np.abs(normal(4, 6)).astype(np.float32)
    row = gradcheck(steep(10.0625), x, reference=steep(10.07), precision="bfloat16").rows[0]
    assert row.verdict == UNCLEAR
    assert row.note.endswith("too little to be called a mistake")


def test_what_a_reference_errs_in_float32_counts_as_roundings_of_the_kernel_s_precision():
    x = (np.array([1.0, -0.5]) + 0.02 * normal(2)).astype(np.float32)
    reference = steep(66.6, seen=lambda x: np.array(np.asarray(x)))
    row = gradcheck(steep(66.6, bfloat16), x, reference=reference, precision="bfloat16").rows[0]
    assert row.verdict == UNCLEAR
    assert "imprecise" not in row.note


def test_every_point_is_of_the_kernel_s_numbers_and_symmetric_where_that_is_declared():
    seen = []

    def forward(x):
        seen.append(x)
        return x * x, x

    pair, x = (forward, lambda dy, x: 2 * dy * x), normal(3, 3)
    x = (x + x.T).astype(np.float32)
    report = gradcheck(pair, x, reference=lambda x: x * x, precision="bfloat16", structure="symmetric")
    assert report.ok, report
    assert len({x.tobytes() for x in seen}) >= 12
    for x in seen:
        np.testing.assert_array_equal(x, x.T)
        np.testing.assert_array_equal(x, bfloat16(x))


def test_nan_is_a_problem_where_the_true_gradient_is_0():
    """The mean over what counts, of which there is nothing: 0/0 in the backward alone."""

    def forward(x, counts):
        return (x * counts).sum(dtype=x.dtype) / max(counts.sum(), 1), counts

    def backward(dy, counts, least=0):
        return np.float32(dy) * counts.astype(np.float32) / np.float32(max(counts.sum(), least))

    x, none = normal(7).astype(np.float32), np.zeros(7, bool)
    with np.errstate(invalid="ignore"):
        report = gradcheck((forward, backward), x, none, reference=lambda x, counts: forward(x, counts)[0])
    assert not report.ok
    assert report.problems == ("the gradient of x is NaN at [0], as 7 of 7 entries are, where forward is finite",)
    right = gradcheck((forward, lambda dy, c: backward(dy, c, 1)), x, none, reference=lambda x, c: forward(x, c)[0])
    assert not right.problems
