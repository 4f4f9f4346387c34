"""The checker is checked: right gradients pass, wrong ones fail and are named, what it cannot tell it does not pass."""

import re
import traceback

import numpy as np
import pytest

from npformer import functional
from npformer.check import gradcheck, look
from npformer.check.report import KINK, NOTHING, RIGHT, UNCLEAR, WRONG
from npformer.errors import ConfigError, DTypeError, ShapeError
from npformer.io import progress_bar
from tests.check.functions import WITNESSES, l2_norm, normal, only_row, spoiled, tanh, verdict, verdicts

MODES = pytest.mark.parametrize("options", [{}, {"complex_step": False}, {"elementwise": False}], ids=str)


def one_doubled(da):
    da = da.copy()
    da[1, 2] *= 2
    return da


@MODES
def test_a_right_gradient_is_right(options, product, a, b):
    report = gradcheck(product, a, b, **options)
    assert report.ok
    assert [(row.tensor, row.shape, row.verdict, row.note) for row in report.rows] == [
        ("a", (3, 3), RIGHT, ""),
        ("b", (3, 3), RIGHT, ""),
    ]
    assert all(row.scaled_error < 1e-9 and row.central_error < 1e-9 for row in report.rows)
    report.raise_if_failed()


@MODES
@pytest.mark.parametrize(
    ("spoil", "ratio"),
    [
        (lambda da: 1.001 * da, 1.001),
        (lambda da: da + 1e-6, None),
        (lambda da: da.T.copy(), None),
        (lambda da: np.zeros_like(da), 0),
        (lambda da: -da, -1),
        (lambda da: one_doubled(da), 2),
        (lambda da: np.where(da == da.max(), np.nan, da), None),
        (lambda da: np.where(da == da.max(), np.inf, da), None),
    ],
    ids=["scaled", "shifted", "transposed", "zero", "sign", "one element", "NaN", "infinite"],
)
def test_a_wrong_gradient_is_found_and_named(options, spoil, ratio, product, a, b):
    """And the ratio shows a constant factor, of an element too where elements are looked at."""
    report = gradcheck(spoiled(product, lambda da, db: (spoil(da), db)), a, b, explain=False, **options)
    assert not report.ok
    assert verdicts(report) == {"a": WRONG, "b": RIGHT}
    assert report.worst.tensor == "a"
    if ratio is not None and (ratio != 2 or "elementwise" not in options):
        assert report.worst.ratio == pytest.approx(ratio, rel=1e-8)


def test_the_row_names_the_element_and_both_numbers(product, a, b):
    worst = gradcheck(spoiled(product, lambda da, db: (one_doubled(da), db)), a, b).worst
    assert worst.worst_index == (1, 2)
    assert worst.ratio == pytest.approx(2, rel=1e-12)
    assert worst.scaled_error == pytest.approx(abs(worst.numeric) / worst.scale, rel=1e-9)
    nan_at = gradcheck(spoiled(product, lambda da, db: (np.where(da == da[2, 0], np.nan, da), db)), a, b).worst
    assert nan_at.worst_index == (2, 0)


@pytest.mark.parametrize(("other", "error"), [(8.0, 0.002 / 4), (8000.0, 0.002 / 8)])
def test_the_error_is_scaled_as_the_design_says(other, error):
    """max|a − n| / max(max|n|, 1e-3·largest of the check): 4 rules beside 8, and 8000/1000 beside 8000."""
    right, wrong = np.array([4.0, -2.0, 1.0]), np.array([4.0, -2.002, 1.001])
    size = np.array([other, 1.0])

    def forward(x, z):
        return np.sum(right * x) + np.sum(size * z), None

    report = gradcheck(
        (forward, lambda dy, _: (dy * wrong, dy * size)), np.array([0.1, 0.2, 0.3]), np.array([0.4, 0.5])
    )
    x, z = report.rows
    assert x.scaled_error == pytest.approx(error, rel=1e-9)
    assert x.central_error == pytest.approx(error, rel=1e-5)
    assert (x.worst_index, x.verdict, z.verdict) == ((1,), WRONG, RIGHT)
    assert x.ratio == pytest.approx(1.001)


@pytest.mark.parametrize(("shift", "expected"), [(0.5e-10, RIGHT), (2e-10, WRONG)])
def test_the_complex_step_must_agree_to_1e_10(shift, expected):
    assert verdict((lambda x: (x * 1.0, None), lambda dy, _: dy * (1 + shift)), np.array([0.7])) == expected


@pytest.mark.parametrize(("shift", "expected"), [(0.5e-10, RIGHT), (6e-9, WRONG)])
def test_differences_alone_tell_a_constant_mistyped_by_6e_9(shift, expected):
    assert verdict(tanh(1 + shift), np.array([0.7, -0.2]), complex_step=False) == expected


RELU = (lambda x: (np.where(x.real > 0, x, 0), x > 0), lambda dy, is_open: dy * is_open)
AT_A_KINK = np.array([0.5, 3e-9, -0.7])  # nearer to 0 than any h that is tried


def test_a_kink_is_no_failure_where_the_complex_step_can_tell():
    row = only_row(RELU, AT_A_KINK)
    assert (row.verdict, row.note, row.ok) == (RIGHT, "central differences cannot tell here", True)


def test_a_kink_nearby_is_no_failure_without_the_complex_step_either():
    """What cannot be told is not called WRONG; and there is room for a smaller step beside most kinks."""
    row = only_row(RELU, AT_A_KINK, complex_step=False)
    assert row.verdict in (RIGHT, KINK, UNCLEAR)
    assert "sweep of h" in row.note
    assert only_row(RELU, np.array([0.5, 3e-6, -0.7]), complex_step=False).note == ""
    assert row.worst_index == (1,)
    assert gradcheck(RELU, np.array([0.5, -0.7]), complex_step=False).ok


@WITNESSES
def test_a_wrong_gradient_beside_a_kink_is_wrong(options):
    assert verdict((RELU[0], lambda dy, is_open: 1.01 * dy * is_open), AT_A_KINK, **options) == WRONG


@MODES
def test_a_check_whose_gradients_are_all_zero_proves_nothing(options):
    pair = (lambda x: (0 * x, x), lambda dy, x: 0 * dy)
    report = gradcheck(pair, np.array([0.5, 0.7]), **options)
    assert (report.rows[0].verdict, report.rows[0].note) == (NOTHING, "every gradient of this check is 0")
    assert not report.ok


def test_one_gradient_of_zero_beside_others_is_right():
    pair = (lambda x, z: (x + 0 * z, None), lambda dy, _: (dy, 0 * dy))
    assert gradcheck(pair, np.array([0.5, 0.7]), np.array([0.1, 0.2])).ok


WAY = "; for an input that wants none, return None in its place, name it in constant=, or pass it by name"


@pytest.mark.parametrize(
    ("spoil", "error", "text"),
    [
        (lambda da, db: da, ShapeError, f"backward: expected 2 gradients, of a, b, in this order, got 1{WAY}"),
        (lambda da, db: (da, db, db), ShapeError, "backward: expected 2 gradients, of a, b, in this order, got 3"),
        (lambda da, db: (da, db[0]), ShapeError, "gradient of b: expected (3, 3), got (3,)"),
        (
            lambda da, db: (da.astype(np.float32), db),
            DTypeError,
            "gradient of a: expected float64, as the input was given, got float32; for a pair that computes in "
            'float32: precision="float32", or reference= with one in float64',
        ),
    ],
)
def test_gradients_that_do_not_fit_are_a_problem_or_refused(spoil, error, text, product, a, b):
    if error is ShapeError:
        report = gradcheck(spoiled(product, spoil), a, b)
        assert (report.ok, report.problems) == (False, (text,))
        assert [row.verdict for row in report.rows] == [UNCLEAR] * 2
    else:
        with pytest.raises(error, match=f"^{re.escape(text)}$"):
            gradcheck(spoiled(product, spoil), a, b)


ORDER = "expected (3, 4), got (5, 4); are those of q, k in another order? backward returns them in the order q, k, v"
QKV = (np.ones((3, 4)), np.ones((5, 4)), np.ones((5, 2)))


@pytest.mark.parametrize(
    ("a", "text"),
    [
        (np.ones((0, 3)), "a: expected at least one element, got (0, 3); an empty check proves nothing"),
        (np.array([[1]]), "inputs: expected at least one array of floats, or a target with parameters, got nothing to"),
    ],
    ids=["empty", "nothing to check"],
)
def test_a_check_that_cannot_be_is_refused(a, text):
    with pytest.raises(ShapeError, match=f"^{re.escape(text)}"):
        gradcheck((lambda a, b: (a @ b, None), None), a, np.array([[2], [3], [4]]))


def test_gradients_in_another_order_are_told():
    pair = (lambda q, k, v: (q @ k.T @ v, None), lambda dy, _: (QKV[1], QKV[0], QKV[2]))
    assert gradcheck(pair, *QKV).problems == (f"gradient of q: {ORDER}",)


def test_many_elements_are_checked_along_directions(product):
    a, b = normal(3, 700), normal(700, 2, seed=1)
    report = gradcheck(product, a, b)
    assert all(row.by_direction and row.ok for row in report.rows)
    assert gradcheck(product, a[:, :20], b[:20]).rows[0].by_direction is False
    worst = gradcheck(spoiled(product, lambda da, db: (da, 1.001 * db)), a, b).worst
    assert (worst.tensor, worst.verdict, len(worst.worst_index)) == ("b", WRONG, 1)
    assert worst.ratio == pytest.approx(1.001, rel=1e-9)
    assert "dir " in str(report)


def test_gradients_that_are_zero_but_for_rounding_prove_nothing():
    def row_sums_forward(x):
        y, cache = functional.softmax_forward(x)
        return y.sum(axis=-1), cache

    def row_sums_backward(dy, cache):
        return functional.softmax_backward(np.broadcast_to(dy[..., None], cache.y.shape), cache)

    x = normal(3, 5)
    row = only_row((row_sums_forward, row_sums_backward), x)
    assert (row.verdict, row.note) == (NOTHING, "every gradient of this check is 0")
    assert verdict((row_sums_forward, lambda dy, cache: (cache.y * dy[..., None],)), x) == WRONG


def failing_forward(x):
    return np.linalg.inv(x), x


def failing_backward(dy, x):
    raise RuntimeError("a kernel did not start")


@pytest.mark.parametrize("options", [{}, {"precision": "float32"}], ids=str)
def test_an_error_inside_of_the_forward_shows_its_own_lines(options):
    """After gradcheck's line, the one that calls it, no line of the checker's own."""
    with pytest.raises(np.linalg.LinAlgError) as caught:
        gradcheck((failing_forward, failing_backward), np.ones((2, 2)), **options)
    frames = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    theirs = frames[frames.index("gradcheck") + 1 :]
    assert theirs[0] == "failing_forward"
    assert frames.count("gradcheck") == 1


@pytest.mark.parametrize("options", [{}, {"precision": "float32"}], ids=str)
def test_an_error_inside_of_the_backward_is_a_problem_with_its_line(options):
    report = gradcheck((failing_forward, failing_backward), np.eye(2), **options)
    line = failing_backward.__code__.co_firstlineno + 1
    assert (report.ok, report.problems) == (
        False,
        (
            f"backward raises RuntimeError in failing_backward (test_check.py, line {line}), where forward answers: "
            "a kernel did not start",
        ),
    )


def test_inputs_drawn_with_the_seed_of_the_check_are_no_special_point():
    """dy = x, of which y = x/‖x‖ has the gradient 0, and any multiple of it is right."""
    for seed in range(3):
        x = normal(3, 5, seed=seed)
        for factor, expected in ((1, RIGHT), (2, WRONG)):
            assert verdict(l2_norm(factor, lambda x, **axis: np.sqrt(np.sum(x * x, **axis))), x, seed=seed) == expected


@pytest.mark.parametrize(("elementwise", "places"), [(True, 12 + 5), (False, 2 * 2)])
def test_a_bar_counts_elements_or_directions_after_a_second(monkeypatch, elementwise, places):
    moved = []

    class Recorded(progress_bar.Bar):
        def __init__(self, what, total, after):
            super().__init__(what, total)
            moved.append([what, total, after, 0])

        def move(self, amount=1):
            moved[-1][-1] += amount

    monkeypatch.setattr(look, "Bar", Recorded)
    pair = (lambda a, b: (a.sum() * b, (a, b)), lambda dy, c: (np.full((3, 4), dy @ c[1]), dy * c[0].sum()))
    assert gradcheck(pair, normal(3, 4), normal(5), elementwise=elementwise).ok
    assert moved == [["gradcheck", places, 1, places]]


def in_float32(factor):
    def forward(x):
        y = np.tanh(x.astype(np.float32))
        return y, y

    return forward, lambda dy, y: np.asarray(factor * dy * (1 - y * y), np.float32)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_pair_that_computes_in_float32_is_judged_in_it(dtype, a):
    report = gradcheck(in_float32(1), a.astype(dtype))
    assert report.ok
    assert report.notes[0].startswith("backward computes in float32, so it is judged in float32")
    assert not gradcheck(in_float32(1.01), a.astype(dtype), explain=False).ok


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"regime": "all"}, "regime: expected .*did you mean regimes?"),
        ({"smaple": None}, "smaple: expected .*did you mean sample?"),
        ({"toleranse": 1e-6}, "toleranse: expected .*did you mean tolerance?"),
        ({"beta": 2}, "beta: expected an option of gradcheck, or one that forward declares; forward takes x, scale"),
    ],
)
def test_unknown_options_are_refused_with_the_nearest_name(options, text):
    def forward(x, scale=1.0):
        return scale * x, scale

    with pytest.raises(ConfigError, match=text):
        gradcheck((forward, lambda dy, scale: dy * scale), np.array([0.5, 0.7]), **options)


def test_a_forward_that_takes_any_options_gets_those_that_are_no_misspelt_ones():
    seen = []
    pair = (lambda x, **kw: (x, seen.append(kw)), lambda dy, _: dy)
    assert gradcheck(pair, np.array([0.5, 0.7]), heads=2).ok
    assert seen[0] == {"heads": 2}
    with pytest.raises(ConfigError, match="did you mean regimes"):
        gradcheck(pair, np.array([0.5, 0.7]), regime="all")
    declaring = (lambda x, regime="": (x, regime), lambda dy, _: dy)
    assert gradcheck(declaring, np.array([0.5, 0.7]), regime="mine").ok
