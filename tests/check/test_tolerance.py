"""Tolerances: what rounding justifies, by hand where it can be counted, and what a tolerance lets see."""

import numpy as np
import pytest

import npformer as npf
from npformer.check.rounding.formats import STORED, rounded
from npformer.check.rounding.stochastic import Level, Rounding
from npformer.check.rounding.tolerance import DrawnErrors, allowed, justified
from npformer.errors import ConfigError
from tests.check.functions import LOG, normal

X = normal(6, 24)
BFLOAT16 = STORED["bfloat16"]
U = BFLOAT16.u
SOFTMAX = npf.functional.softmax_forward, npf.functional.softmax_backward
LAYER_NORM = npf.functional.layer_norm_forward, npf.functional.layer_norm_backward
NORMED = (X, 1 + 0.2 * normal(24, seed=1), normal(24, seed=2))


def scaled(x, w):
    return x * w, (x, w)


def scaled_backward(dy, cache):
    x, w = cache
    return dy * w, (dy * x).sum(axis=0)


def in_bfloat16(pair, inputs, dy):
    """[y, gradients …] of a pair with float32 inside that stores in bfloat16, and their exact values."""
    inputs = [rounded(np.asarray(x), BFLOAT16) for x in inputs]
    found = []
    for dtype in (np.float32, np.float64):
        y, cache = pair[0](*(x.astype(dtype) for x in inputs))
        gradients = pair[1](rounded(dy, BFLOAT16).astype(dtype), cache)
        found.append([y, *(gradients if isinstance(gradients, tuple) else (gradients,))])
    return [rounded(np.asarray(x), BFLOAT16) for x in found[0]], found[1]


def test_one_product_that_is_stored_is_one_rounding():
    """y = x·w in bfloat16: half a spacing, at most u·|y|, and nothing else."""
    for name, rtol in (("float8_e4m3", 0.063), ("float8_e5m2", 0.13), ("bfloat16", 0.004)):  # 2⁻⁴, 2⁻³, 2⁻⁸, rounded up
        y = npf.tolerance((scaled, scaled_backward), X, NORMED[1], precision=name)["the output"]
        assert y.rtol == rtol
    assert y.atol < 1e-2 * U * np.max(np.abs(X * NORMED[1]))
    assert 0 < y.shows < 0.25 * U  # some entry is almost a whole rounding off


def test_what_is_not_rounded_has_no_tolerance():
    pair = (lambda x: (np.maximum(x, 0), x > 0), lambda dy, above: np.where(above, dy, 0))
    for row in npf.tolerance(pair, X, precision="float16").claims:
        assert (row.atol, row.rtol, row.shows) == (0, 0, 0)
        assert "an error of any size shows" in row.reason


def test_the_margin_is_gumbel_s():
    """For errors of one entry that are normal: mean and deviation of |e| by hand, from an entry that is 0."""
    e = np.random.default_rng(0).normal(size=(100_000, 1))
    drawn = DrawnErrors(np.zeros_like(e), e, {}, (1,), STORED["float32"])
    mean, deviation = (2 / np.pi) ** 0.5, (1 - 2 / np.pi) ** 0.5
    assert justified(drawn)[0] == pytest.approx(mean + (np.log(1e6) - 0.5772) * 0.7797 * deviation, rel=0.02)


def test_the_smallest_visible_error_by_hand():
    """n = 1, 2 and −4 are stored exactly: 4·d exceeds 0.1 + 0.01·4 first, at d = 0.035."""
    exact = np.array([[1.0, 2.0, -4.0]])
    row = allowed("x", DrawnErrors(exact, 0 * exact, {"a": exact / 50, "b": exact / 20}, (3,), BFLOAT16), 0.1, 0.01)
    assert row.shows == pytest.approx(0.035)
    assert (row.seen, row.hidden, row.failing) == (("b",), ("a",), 0)


@pytest.mark.parametrize("terms", [1, 64])
def test_a_sum_in_turn_errs_as_the_model_says(terms):
    """Against float32 sums of numpy.cumsum, in half spacings of numbers of all sizes."""
    u, half = 2.0**-24, (0.75 / (2 * np.log(2))) ** 0.5
    x = np.random.default_rng(1).normal(size=(20_000, terms)).astype(np.float32)
    truth = x.astype(np.float64).sum(axis=1)
    rounding = Rounding(0, *[Level(0.0, 0.0, in_turn=half * u)] * 2)
    with rounding.during(True):
        moved = np.asarray(rounding.of(x.astype(np.float64)).sum(axis=1))
    real = np.cumsum(x, axis=1, dtype=np.float32)[:, -1]
    spread = np.sqrt(np.mean(np.square(moved - truth)))
    assert spread == pytest.approx(np.sqrt(np.mean(np.square(real - truth))), rel=0.15, abs=1e-12)


@pytest.mark.parametrize(("pair", "inputs", "term"), [(SOFTMAX, (X,), "- shared"), (LAYER_NORM, NORMED, "- along_one")])
def test_the_lines_let_a_right_kernel_pass_and_no_wrong_one(pair, inputs, term):
    found = npf.tolerance(pair, *inputs, precision="bfloat16")
    assert term in found["x"].seen
    assert found.ok
    values, exact = in_bfloat16(pair, inputs, normal(*X.shape, seed=4))
    names = [row.variable for row in found.claims]
    here = dict(zip(names, values, strict=True)) | {f"exact_{k}": v for k, v in zip(names, exact, strict=True)}
    lines = [line for line in str(found).splitlines() if line.startswith("numpy.")]
    assert len(lines) == len(found.claims)
    for line in lines:
        exec(line, {"numpy": np} | here)
    with pytest.raises(AssertionError):
        exec(lines[1], {"numpy": np} | here | {"dx": rounded(1.03 * exact[1], BFLOAT16)})


def test_the_lines_for_pytorch():
    torch = pytest.importorskip("torch")
    found = npf.tolerance(SOFTMAX, X, precision="bfloat16")
    x = torch.tensor(rounded(X, BFLOAT16))
    here = {"torch": torch, "y": torch.softmax(x.bfloat16(), -1), "exact_y": torch.softmax(x, -1)}
    (line,) = [line for line in str(found).splitlines() if line.startswith("torch.testing.assert_close(y,")]
    exec(line, here)
    with pytest.raises(AssertionError):
        exec(line, here | {"y": 1.05 * here["y"]})


def test_what_somebody_s_tolerance_lets_pass():
    """Half of dx is allowed: the loss of the row sum passes."""
    tight, loose = (npf.tolerance(LAYER_NORM, *NORMED, precision="float32", atol=a, rtol=a) for a in (1e-5, 0.8))
    assert "- along_one" in tight["x"].seen
    assert "- along_one" in loose["x"].hidden
    assert "the loss of" in loose["x"].reason
    assert not loose.ok
    assert loose.check(1e-5, 1e-5).claims == tight.claims


def test_a_tolerance_that_is_too_tight_is_told():
    found = npf.tolerance(SOFTMAX, X, precision="bfloat16", rtol=1e-3)
    assert (found["x"].failing, found["x"].atol, found["x"].rtol) == (1, 0, 1e-3)
    assert "TOO TIGHT: rounding alone exceeds it in 100 % of draws" in str(found)
    assert not found.ok


def test_a_forward_alone_and_another_library_give_about_the_same():
    torch = pytest.importorskip("torch")
    references = (SOFTMAX, lambda x: SOFTMAX[0](x)[0], npf.from_torch(lambda x: torch.softmax(x, -1)))
    pair, alone, foreign = (npf.tolerance(reference, X[:2, :8], precision="bfloat16") for reference in references)
    for found in (alone, foreign):
        for row, right in zip(found.claims, pair.claims, strict=True):
            assert row.variable == right.variable
            assert right.shows / 2.5 < row.shows < 2.5 * right.shows
    assert foreign.notes == ("the reference computes outside of NumPy: what it errs in float32 stands for its noise",)


def test_tf32_rounds_products_alone():
    linear = npf.functional.linear_forward, npf.functional.linear_backward
    inputs = X, normal(24, 5, seed=1), normal(5, seed=2)
    wide, narrow = (npf.tolerance(linear, *inputs, precision=name) for name in ("tf32", "float32"))
    assert wide["x"].shows > 100 * narrow["x"].shows
    assert wide["bias"].shows < 2 * narrow["bias"].shows


def test_sums_in_few_digits_are_declared():
    found = [npf.tolerance(LAYER_NORM, *NORMED, precision="bfloat16", accumulate=a) for a in ("bfloat16", None)]
    assert found[0]["beta"].atol > 10 * found[1]["beta"].atol


def test_sample_and_parameters_and_names():
    near, far = (npf.tolerance(SOFTMAX, X, sample=s) for s in (None, lambda rng: (8 * rng.normal(size=(6, 24)),)))
    assert far["x"].atol > 2 * near["x"].atol
    layer = npf.layers.LayerNorm(24, backend=npf.get_backend("numpy", dtype="float64", kernels="plain"))
    assert [row.variable for row in npf.tolerance(layer, X).claims] == ["y", "dx", "dgamma", "dbeta"]
    two = (lambda x: ((x[:3] * 1.1, x[3:] * 1.1), None), lambda dy, _: np.concatenate([dy[0], dy[1]]) * 1.1)
    assert [row.variable for row in npf.tolerance(two, X, names=["a['b']"]).claims] == ["y0", "y1", "da_b"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"precision": "float8"}, r"^precision: expected one of .*float8_e4m3.*, got float8$"),
        ({"atol": -1.0}, r"^atol, rtol: expected two finite numbers >= 0, got -1.0 and 0.0$"),
        ({"accumulate": "float8_e4m3"}, r"^accumulate: expected one of "),
    ],
)
def test_what_is_refused(options, words):
    with pytest.raises(ConfigError, match=words):
        npf.tolerance(SOFTMAX, X, **options)


def test_a_reference_that_is_not_finite_is_refused():
    with (
        np.errstate(all="ignore"),
        pytest.raises(
            ConfigError, match=r"^reference: expected finite numbers at these inputs, got others in the outp"
        ),
    ):
        npf.tolerance(LOG, X)
