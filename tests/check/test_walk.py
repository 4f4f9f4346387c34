"""gradcheck over regimes and sizes: what is found, what is told, and what is not tried."""

import numpy as np
import pytest

import npformer as npf
from npformer.check.regimes import REGIMES
from npformer.check.report import KINK, NOT_TRIED, PROBLEM, UNCLEAR, WRONG
from npformer.errors import ConfigError
from tests.check.functions import square, square_backward

X = np.random.default_rng(0).normal(size=(4, 3))


def walked(backward, *inputs, forward=square, **how):
    """The report over these regimes and sizes."""
    return npf.gradcheck((forward, backward), *(inputs or (X,)), explain=False, **{"regimes": "all"} | how)


def verdicts(report):
    return {str(tried): tried.verdict for tried in report.regimes}


def test_a_right_pair_is_right_in_every_regime():
    report = walked(square_backward, sizes=())
    assert report.ok
    found = verdicts(report)
    assert len(found) >= len(REGIMES)
    assert {name for name, verdict in found.items() if verdict == NOT_TRIED} == {"repeated ids", "all padded"}
    assert report.smallest == ()


def test_a_bug_is_found_with_its_regime_and_a_small_input():
    report = walked(lambda dy, x: np.where(x < -50, 0, 2 * dy * x), sizes=())
    assert not report.ok
    wrong = dict.fromkeys(str(tried) for tried in report.regimes if tried.verdict == WRONG)
    assert list(wrong) == ["saturated below, x", "saturated, x"]
    assert report.worst.verdict == "right", "the rows are of the inputs as given"
    assert "first WRONG in saturated below, x: the gradient of x" in report.notes
    (smallest,) = report.smallest
    assert smallest.shape == (1, 1)
    assert smallest < -50
    assert f"the smallest input found at which it is: x = {np.array2string(smallest, precision=4)}" in report.notes
    again = npf.gradcheck((square, lambda dy, x: 0 * x), smallest, allow_length_one=True)
    assert again.worst.verdict == WRONG
    with pytest.raises(npf.check.GradientError, match="saturated below"):
        report.raise_if_failed()


def test_the_cause_is_named_at_the_smallest_input():
    def embedding(table, ids):
        return table[ids], (table.shape, ids)

    def once(dy, cache):
        shape, ids = cache
        d = np.zeros(shape)
        d[ids] += dy
        return d

    report = npf.gradcheck((embedding, once), X, np.array([0, 2]), regimes="ids", sizes=())
    assert any("`d[ids] += dy` should be `np.add.at(d, ids, dy)`" in note for note in report.notes)
    assert [x.shape for x in report.smallest] == [(1, 1), (2,)]


def test_a_size_is_found():
    def tail(dy, x):
        dx = 2 * dy * x
        dx[:, 32 * (max(x.shape[1], 32) // 32) :] = 0
        return dx

    report = walked(tail, regimes=None, sizes=(31, 32, 33))
    assert [str(t) for t in report.regimes if t.verdict == WRONG] == ["sizes, x.shape[1] = 33"]
    assert report.smallest[0].shape == (1, 33)


def test_all_means_sizes_too():
    found = verdicts(walked(square_backward))
    assert {found[f"sizes, x.shape[1] = {n}"] for n in (1, 31, 32, 33, 63, 64, 65, 127, 128, 129)} == {"right"}


def test_queries_and_keys_differ_in_number():
    def scores(q, k):
        return q @ k.T, (q, k)

    def square_only(dy, cache):
        q, k = cache
        return dy @ k, dy.T @ q * (len(q) / len(k))

    report = walked(square_only, X, X + 1, forward=scores, regimes=None, sizes=(5,))
    assert [str(t) for t in report.regimes if t.verdict == WRONG] == [
        f"sizes, {name}.shape[0] = {n}, the rest 4" for name in "qk" for n in (7, 2)
    ]


def test_what_the_forward_refuses_is_not_tried():
    def log(x):
        if (np.real(x) > 90).any():
            raise ValueError("too large")
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.log(x), x

    report = walked(lambda dy, x: dy / x, np.abs(X) + 0.1, forward=log, sizes=())
    assert report.ok
    found = {tried.regime: tried for tried in report.regimes}
    assert (found["negative"].verdict, found["negative"].note) == (NOT_TRIED, "forward is not finite")
    assert found["offset"].note == "forward refuses it: ValueError: too large"


def test_a_kink_is_told_as_one_and_fails_nothing():
    def relu(x):
        return np.maximum(x, 0), x

    report = walked(lambda dy, x: dy * (x > 0), forward=relu, regimes="zeros", sizes=())
    assert [tried.verdict for tried in report.regimes] == [KINK]
    assert report.ok


def softmax_loss(x, classes):
    z = x - np.real(x).max(axis=-1, keepdims=True)
    p = np.exp(z) / np.exp(z).sum(axis=-1, keepdims=True)
    hot = np.eye(x.shape[-1])[classes]
    return -(np.log(p) * hot).sum(), (p, hot)


def test_lost_digits_are_no_mistake():
    """p - 1 of a p that is 1 up to 1e-13 keeps three digits; a mistake there is one for all that."""
    classes = np.array([0, 2, 1, 1])
    right = walked(lambda dy, c: dy * (c[0] - c[1]), X, classes, forward=softmax_loss, regimes="confident", sizes=())
    assert [tried.verdict for tried in right.regimes] == ["right", UNCLEAR]
    assert "digits are lost" in right.regimes[1].note
    assert right.ok

    def at_once(dy, c):
        certain = c[0].max() > 0.99
        return dy * (c[0] - c[1]) * (1.01 if certain else 1)

    wrong = walked(at_once, X, classes, forward=softmax_loss, regimes="confident", sizes=())
    assert [tried.verdict for tried in wrong.regimes] == [WRONG, WRONG]


def test_an_input_is_what_the_user_says():
    report = npf.gradcheck(
        (lambda x, w: (x * w, (x, w)), lambda dy, c: (dy * c[1], dy * c[0])), X, X + 2, explain=False,
        regimes={"w": ("ties", "lengths")}, sizes=(),
    )  # fmt: skip
    assert [str(tried) for tried in report.regimes] == ["ties, w", "all padded"]


def test_constants_and_options_by_name():
    def scaled(x, scale, *, mask=None):
        return x * scale * mask, (scale, mask)

    report = npf.gradcheck(
        (scaled, lambda dy, c: dy * c[0] * c[1]), X, X + 2, constant="scale", mask=X > 0, explain=False, regimes="all",
        sizes=(),
    )  # fmt: skip
    changed = {tried.where for tried in report.regimes if tried.where}
    assert changed == {"x", "mask"}


def test_no_walk_where_the_gradient_is_wrong_already():
    report = walked(lambda dy, x: dy * x)
    assert report.regimes == ()
    assert "regimes: not tried, for a gradient is not right as it is" in report.notes


def test_a_kernel_of_few_digits():
    def low(dy, x):
        return np.where(x > 50, 0, 2 * dy * x).astype("f4")

    report = walked(low, X.astype("f4"), reference=(square, square_backward), regimes="saturated above", sizes=())
    assert [tried.verdict for tried in report.regimes] == [WRONG]
    right = walked(square_backward, X.astype("f4"), reference=(square, square_backward), regimes="gates", sizes=(33,))
    assert {tried.verdict for tried in right.regimes} == {"right"}


@pytest.mark.parametrize("sizes", ["all", (0,), (3.5,)])
def test_sizes_are_whole_numbers(sizes):
    with pytest.raises(ConfigError, match="sizes: expected a function of a size, or whole numbers >= 1"):
        walked(square_backward, sizes=sizes)


def test_the_table_and_the_json():
    report = walked(
        lambda dy, x: np.where(x < -50, 0, 2 * dy * x), regimes=["saturated below", "ties", "ids"], sizes=()
    )
    lines = str(report).splitlines()
    assert "saturated below  2 WRONG: x, x" in lines
    assert "repeated ids     1 not tried: there is no such input" in lines
    document = report.to_dict()
    assert not document["ok"]
    assert document["regimes"][0]["verdict"] == WRONG
    assert "regimes" not in npf.gradcheck((square, square_backward), X).to_dict()


FAILING = {
    "raises": lambda dy, x: 1 // 0,
    "another shape": lambda dy, x: (2 * dy * x)[:-1],
    "NaN": lambda dy, x: np.nan * x,
}


@pytest.mark.parametrize("name", FAILING)
def test_a_backward_that_fails_where_its_forward_answers_is_a_problem(name):
    """At the point, at a size, in a regime, and at a sample."""
    for fails, how in (
        (lambda x: True, {}),
        (lambda x: len(x) == 7, {"sizes": (7, 8)}),
        (lambda x: not x.all(), {"regimes": "zeros", "sizes": ()}),
        (lambda x: x[0, 0] == 9, {"sample": lambda rng: (9 + rng.random((4, 3)) * [0, 1, 1],)}),
    ):
        report = walked(
            lambda dy, x, fails=fails: (FAILING[name] if fails(x) else square_backward)(dy, x),
            **{"regimes": None} | how,
        )
        assert not report.ok
        assert report.problems or any(tried.verdict in (PROBLEM, WRONG) for tried in report.regimes)


def test_indices_that_are_a_permutation_stay_one():
    orders = {"1-D": np.array([3, 1, 0, 2]), "from 1": np.array([3, 1, 4, 2])}
    for base, order in enumerate(orders.values()):
        pair = {"forward": lambda x, i, base=base: (x[i - base], i)}
        assert walked(lambda dy, i, base=base: dy[np.argsort(i - base)], X, order, **pair).ok
        assert not walked(lambda dy, i, base=base: dy[i - base], X, order, **pair).ok


def test_the_lengths_of_parts_fit_their_axis():
    def sums(x, lengths):
        return np.add.reduceat(x, np.cumsum(lengths) - lengths, axis=0), lengths

    report = walked(lambda dy, n: np.repeat(dy, n, axis=0), X, np.array([1, 2, 1]), forward=sums, sizes=(31, 32))
    assert not [tried for tried in report.regimes if tried.verdict == PROBLEM]
    assert verdicts(report)["sizes, x.shape[0] = 31"] == "right"


def test_ids_grow_with_their_table():
    def backward(dy, cache):
        shape, ids = cache
        table = np.zeros(shape)
        np.add.at(table, ids.astype(np.int8), dy)
        return table

    report = walked(backward, X, np.array([0, 3, 2, 3, 1]), forward=lambda t, i: (t[i], (t.shape, i)), regimes=None,
                    sizes=(127, 128, 129))  # fmt: skip
    told = {tried.where: tried.verdict for tried in report.regimes}
    assert [told[f"t.shape[0] = {n}"] for n in (127, 128, 129)] == ["right", "right", WRONG]


def test_all_targets_may_be_minus_one():
    def picked(x, t, ignore_index=-1):
        counts = t != ignore_index
        return (np.take_along_axis(x, np.maximum(t, 0)[:, None], 1)[:, 0] * counts).sum() / max(counts.sum(), 1), (x, t)

    def backward(dy, cache, least=1):
        x, t = cache
        dx = np.zeros_like(x)
        dx[np.arange(len(t)), np.maximum(t, 0)] = t >= 0
        with np.errstate(all="ignore"):
            return dy * dx / max((t >= 0).sum(), least)

    targets = np.array([0, 2, 1, 2])
    assert walked(backward, X, targets, forward=picked, sizes=()).ok
    report = walked(lambda dy, c: backward(dy, c, 0) if c[1].max() >= 0 else dy * c[0] / 0, X, targets, forward=picked,
                    regimes="all padded", sizes=())  # fmt: skip
    assert not report.ok


def test_exp_may_overflow_in_the_backward_alone():
    def softplus(x):
        return np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0), x

    report = walked(lambda dy, x: dy * np.exp(x) / (1 + np.exp(x)), forward=softplus, regimes="gates", sizes=())
    assert not report.ok
    assert walked(lambda dy, x: dy / (1 + np.exp(-x)), forward=softplus, regimes="gates", sizes=()).ok


def test_nine_axes_of_length_two_ask_for_no_more_memory_than_there_is():
    x = np.random.default_rng(0).normal(size=(2,) * 9)
    assert walked(square_backward, x, regimes="tiny").ok
