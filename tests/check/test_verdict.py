"""Verdicts: what each witness can bring about, what is looked at before anything is called wrong, and entry by entry.

Small wrong entries beside large right ones are WRONG, and rounding of terms that cancel is not.
"""

import numpy as np
import pytest

from npformer.check import gradcheck
from npformer.check import verdict as module
from npformer.check.look import random_upstreams
from npformer.check.oracles import Evidence, Oracle
from npformer.check.report import KINK, NOTHING, RIGHT, UNCLEAR, WRONG
from npformer.check.subject import Subject
from npformer.check.verdict import FRESH, Judge
from npformer.errors import ConfigError
from npformer.layers import EncoderLayer, LayerNorm
from npformer.layers.parameter import Parameter
from tests.check.functions import (
    SOFTMAX,
    WITNESSES,
    Forgetful,
    normal,
    normals,
    of_softmax,
    only_row,
    row_mean,
    softmax_slope,
    tanh,
    verdict,
    verdicts,
)

HIDDEN = "hidden behind larger entries of the tensor; the error is of the entry's own terms"
MATRIX = normal(4, 6, seed=5)
X = np.array([0.6, -0.8, 1.1])


def relu_pair(claim=1.0):
    return lambda x: (np.where(x.real > 0, x, 0) + 0.1 * x, x), lambda dy, x: claim * (dy * (x > 0) + 0.1 * dy)


def in_float32(pair):
    forward, backward = pair
    return lambda x: (forward(x.astype(np.float32))[0].astype(np.float64), forward(x)[1]), backward


@pytest.mark.parametrize(("complex_step", "size"), [(True, 1e-13), (False, 5e-13)])
def test_of_what_is_right_too_the_largest_error_is_named(complex_step, size):
    off = 1 + size * np.array([1, 90, 2])
    row = only_row(tanh(off), np.array([0.6, 0.5, 0.4]), complex_step=complex_step)
    assert (row.verdict, row.worst_index) == (RIGHT, (1,))


def test_a_kink_at_the_point():
    at_a_kink = np.array([0.5, 0.0, -0.7])
    assert verdict(relu_pair(), at_a_kink, complex_step=False) == KINK
    assert verdict(relu_pair(), at_a_kink) == KINK  # the complex step picked one side; central differences the mean
    assert verdict(relu_pair(), at_a_kink, complex_step=False, explain=False) != RIGHT


def test_a_wrong_element_cannot_hide_behind_another_kink():
    """Its claim is what a large step says there; the element beside it is right and looks worse."""
    x = np.array([3e-6, 4e-6, 0.5])
    claim = np.array([1.0, 0.9, 1.0])
    assert verdict(relu_pair(), x, complex_step=False) == RIGHT
    row = only_row(relu_pair(claim), x, complex_step=False)
    assert (row.verdict, row.worst_index) == (WRONG, (1,))


@pytest.mark.parametrize(("most", "expected"), [(5 * module.SWEEP, UNCLEAR), (module.MOST_FORWARDS, RIGHT)])
def test_too_many_doubtful_places_are_not_passed(most, expected, monkeypatch):
    monkeypatch.setattr(module, "MOST_FORWARDS", most)
    near = np.concatenate([[1.0], 3e-9 * (1 + np.random.default_rng(0).random(25))])  # steps begin as of 1
    assert verdict(relu_pair(), near, complex_step=False) == expected


@pytest.mark.parametrize("seed", range(2))
def test_float32_inside_is_judged_to_what_it_shows(seed):
    x = normal(4, seed=seed)
    for factor, expected in ((1, RIGHT), (1 + 1e-5, WRONG)):
        row = only_row(in_float32(tanh(factor)), x, complex_step=False, explain=factor == 1, seed=seed)
        assert row.verdict == expected
        assert row.note.startswith("slopes over widths of h settle to ") or expected == WRONG


@WITNESSES
def test_the_tolerance_counts(options):
    assert verdict(tanh(1.001), X, tolerance=1e-2, **options) == RIGHT
    assert verdict(tanh(1.001), X, tolerance=1e-4, **options) == WRONG


@pytest.mark.parametrize(("kind", "sizes"), [(LayerNorm, (4,)), (EncoderLayer, (4, 2, 6))])
def test_a_fresh_layer_is_checked_at_a_generic_point_and_left_as_it_was(kind, sizes, numpy64):
    layer = kind(*sizes, backend=numpy64)
    before = {name: (p.data, p.data.copy(), p.grad, p.grad.copy()) for name, p in layer.named_parameters()}
    seen = []
    forward = layer.forward
    layer.forward = lambda x: (seen.extend(p.data.copy() for _, p in layer.named_parameters()), forward(x))[1]
    x = normal(2, 3, 4)
    assert gradcheck(layer, x, elementwise=False).ok
    assert all(np.ptp(data) > 0 for data in seen)
    for name, p in layer.named_parameters():
        data, values, grad, gradients = before[name]
        assert np.shares_memory(p.data, data)
        assert np.shares_memory(p.grad, grad)
        np.testing.assert_array_equal(p.data, values)
        np.testing.assert_array_equal(p.grad, gradients)


def test_a_mistake_that_gain_one_hides_is_found(numpy64):
    assert not gradcheck(Forgetful(4, backend=numpy64), normal(2, 3, 4)).ok


def test_a_name_given_twice_is_refused(numpy64):
    class Double(LayerNorm):
        def named_parameters(self, prefix=""):
            yield from super().named_parameters(prefix)
            yield "gamma", Parameter("gamma", np.ones(4))

    with pytest.raises(
        ConfigError, match=r"^named_parameters: expected each name once, got 'gamma' twice; rename one$"
    ):
        gradcheck(Double(4, backend=numpy64), normal(2, 3, 4))


@WITNESSES
@pytest.mark.parametrize(
    ("large", "tolerance"), [(1e11, 1e-10), (1e12, 1e-10), (2e3, 1e-3)], ids=["1e11", "1e12", "2e3 at 1e-3"]
)
def test_small_gradients_claimed_to_be_zero_beside_large_ones(large, tolerance, options):
    w = np.array([2.0, 0.5, -1.0, 3.0, 0.2, 0.7])

    def pair(small):
        return lambda x: (x * np.where(w > 1, large, 1), None), lambda dy, _: dy * np.where(w > 1, large, small)

    for small, expected in ((1, (RIGHT, "")), (0, (WRONG, HIDDEN)), (2, (WRONG, HIDDEN))):
        row = only_row(pair(small), MATRIX, tolerance=tolerance, explain=False, **options)
        assert (row.verdict, row.note) == expected
        assert row.verdict == RIGHT or w[row.worst_index[1]] < 1


@WITNESSES
@pytest.mark.parametrize("seed", range(2))
def test_a_tiny_bias_beside_large_weights_in_one_tensor(seed, options):
    """1e9 times smaller; by smaller and smaller steps it moves the output by nothing at all."""
    draw = normals(seed)
    a, p = 1e9 * draw(7, 4), draw(5)

    def forward(p):
        return np.tanh(a @ p[:4] * 1e-9) * 1e9 + p[4], p

    def backward(dy, p, factor):
        along = dy * (1 - np.tanh(a @ p[:4] * 1e-9) ** 2)
        return np.concatenate([a.T @ along, [factor * dy.sum()]])

    for factor, expected in ((1, RIGHT), (2, WRONG), (0, WRONG)):
        pair = (forward, lambda dy, p, c=factor: backward(dy, p, c))
        row = only_row(pair, p, explain=seed % 2 > 0, **options)
        assert row.verdict == expected
        assert expected == RIGHT or row.worst_index == (4,)


@pytest.mark.parametrize("near", [0.0, 3e-8])
def test_a_small_wrong_entry_shows_beside_a_kink(near):
    """Differences look at the kink first, and must still ask what the rule of the entry says."""
    scales = np.array([1.0, 1.0, 1e-11])

    def forward(x):
        return scales * np.where(x.real > 0, x, 0.5 * x), x

    def backward(dy, x):
        return dy * scales * np.where(x > 0, 1, 0.5) * np.array([1, 1, 2])

    assert verdict((forward, backward), np.array([0.5, near, 0.7]), complex_step=False) not in (RIGHT, NOTHING)


@WITNESSES
@pytest.mark.parametrize("says_none", [False, True])
def test_a_gradient_that_cancels_to_0_may_be_noise_or_none(says_none, options):
    """A key's bias moves all scores of a query alike."""
    draw = normals(5)
    q, v, k, b = draw(3, 4), draw(5, 4), draw(5, 4), draw(4)

    def forward(k, b):
        y = of_softmax(q @ (k + b).T)
        return y @ v, y

    def backward(dy, y):
        dk = softmax_slope(dy @ v.T, y).T @ q
        return dk, None if says_none else dk.sum(axis=0)

    report = gradcheck((forward, backward), k, b, **options)
    assert report.ok, report


@WITNESSES
@pytest.mark.parametrize("rounds_to_0", [False, True])
def test_a_saturated_softmax_may_return_0_where_the_truth_is_1e_20(rounds_to_0, options):
    x = np.array([[0.1, -46.2, -1.3, 2.0], [700.4, 0.2, 1.0, -3.1], [40.3, -0.1, 0.5, 0.7]])

    def backward(dy, y):
        dx = softmax_slope(dy, y)
        return np.where(np.abs(dx) < 1e-17, 0, dx) if rounds_to_0 else dx

    row = only_row((SOFTMAX[0], backward), x, **options)
    assert row.verdict == RIGHT
    assert 0 < row.unjudged < row.elements
    assert f"{row.unjudged} of 12 entries too small beside the largest to be judged" in " ".join(
        " ".join(row.lines()).split()
    )


@WITNESSES
@pytest.mark.parametrize("elementwise", [True, False], ids=["by element", "along directions"])
def test_a_variance_far_from_0_may_be_differentiated_by_terms_that_cancel(elementwise, options):
    """x/n − Σx/n² of 1e6 is 1e-10 off, by the rounding of x alone; what is wrong by more than that is WRONG."""
    n = MATRIX.shape[-1]

    def forward(x):
        centred = x - row_mean(x)
        return np.mean(centred * centred, axis=-1), x

    def backward(dy, x):
        return 2 * dy[:, None] * (x / n - np.sum(x / n**2, axis=-1, keepdims=True))

    options = options | {"elementwise": elementwise}
    for offset in (0.0, 1e4, 1e6):
        assert verdict((forward, backward), MATRIX + offset, **options) == RIGHT
        wrong = (forward, lambda dy, x: backward(dy, x) * (1 + 1e-8))
        assert verdict(wrong, MATRIX + offset, explain=False, **options) == WRONG
    assert verdict((forward, lambda dy, x: 2 * dy[:, None] * x / n), MATRIX + 1e6, **options) == WRONG


def test_noise_is_no_excuse_for_itself():
    """A backward whose last seven digits are noise moves by as much as it is off; that does not make it right."""

    def backward(dy, x):
        return dy * (1 - np.tanh(x) ** 2) * (1 + 1e-7 * np.sin(1e17 * x))

    pair = (lambda x: (np.tanh(x), x), backward)
    assert verdict(pair, MATRIX, explain=False) == WRONG
    assert verdict(pair, MATRIX, explain=False, tolerance=1e-6) == RIGHT


def first_upstream(pair):
    """The first upstream gradient that is judged."""
    (upstream,) = random_upstreams(Subject(pair, (X,)), 0, 1)[0]
    return upstream


def of_tanh():
    """The oracle of tanh, and its gradients."""
    checked = Subject(tanh(), (X,))
    oracle = Oracle(checked, random_upstreams(checked, 0))
    return oracle, np.array([checked.gradients(upstream)["x"] for upstream in oracle.upstreams])


@pytest.mark.parametrize("failing", range(FRESH + 1))
def test_a_small_entry_is_wrong_if_it_fails_at_every_fresh_upstream(failing):
    """Its backward forgets it at the first upstream that is judged and at so many of the fresh ones."""
    w = np.array([1e12, 1.0, 1e12])
    rng = np.random.default_rng([0, 4])
    fresh = [rng.normal(size=3) for _ in range(FRESH)]

    def pair(at):
        def backward(dy, _):
            return dy * np.where([False, any(np.allclose(dy, r, rtol=1e-9) for r in at), False], 0, w)

        return lambda x: (w * x, None), backward

    row = only_row(pair([first_upstream(pair([])), *fresh[:failing]]), X, explain=False)
    assert (row.verdict, row.note) == ((WRONG, HIDDEN) if failing == FRESH else (RIGHT, ""))


@pytest.mark.parametrize(("lost", "expected"), [(1e-4, RIGHT), (0.1, WRONG)])
def test_a_small_entry_is_right_if_fresh_upstreams_show_less_than_the_resolution(lost, expected):
    """The resolution next to 1e12 is some 0.01; the first upstream that is judged shows more in either case."""
    w = np.array([1e12, 1.0, 1e12])

    def backward(dy, _):
        return dy * np.where([False, True, False], 0 if np.allclose(dy, judged, rtol=1e-9) else 1 - lost, w)

    pair = (lambda x: (w * x, None), backward)
    judged = first_upstream(pair)
    assert only_row(pair, X, explain=False).verdict == expected


@pytest.mark.parametrize(("share", "expected"), [(0.25, WRONG), (0.5, UNCLEAR), (0.9, UNCLEAR)])
def test_the_witnesses_must_be_nearer_to_each_other_than_a_third_of_the_error(share, expected):
    """The error is 4e-8, and differences are a share of that away from the complex step."""
    oracle, truth = of_tanh()
    off = 4e-8 * np.max(np.abs(truth), axis=1, keepdims=True) * np.array([0, 1, 0])
    evidence = Evidence(truth, truth + share * off, np.abs(share * off), np.abs(truth))
    most = np.max(np.abs(truth), axis=1)

    def row(is_analytic):
        judge = Judge(oracle, most, 1e-10, lambda: is_analytic)
        return judge.row("x", truth + off, evidence, None)

    assert row(is_analytic=False).verdict == expected
    assert (row(is_analytic=False).note != "") == (expected == UNCLEAR)
    assert row(is_analytic=True).verdict == WRONG, "the complex step alone decides"


@WITNESSES
def test_a_tensor_whose_entries_are_all_hidden_counts_none_of_them(options):
    """As the bias of keys has, whose gradient is 0; what is hidden beside a larger entry is counted."""
    scale = np.array([1.0, 1e-20, 1e-20])
    for b, count in ((scale, 2), (1e-20 * np.ones(3), 0)):
        pair = (lambda a, x, b=b: (a + b * x, b), lambda dy, b: (dy, b * dy))
        report = gradcheck(pair, normal(3), X, **options)
        assert verdicts(report) == {"a": RIGHT, "x": RIGHT}
        assert [row.unjudged for row in report.rows] == [0, count]
