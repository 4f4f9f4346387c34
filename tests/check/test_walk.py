"""gradcheck over regimes and sizes: what is found, what is told, and what is not tried."""

import numpy as np
import pytest

import npformer as npf
from npformer.check.regimes import REGIMES
from npformer.check.report import KINK, NOT_TRIED, UNCLEAR, WRONG
from npformer.errors import ConfigError

X = np.random.default_rng(0).normal(size=(4, 3))


def square(x):
    return x * x, x


def square_backward(dy, x):
    return 2 * dy * x


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
    assert [str(tried) for tried in report.regimes if tried.verdict == WRONG] == ["saturated below, x", "saturated, x"]
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
    for n in (1, 31, 32, 33, 63, 64, 65, 127, 128, 129):
        assert found[f"sizes, x.shape[1] = {n}"] == "right"


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


def test_what_the_backward_refuses():
    def at_four(dy, x):
        if len(x) != 4 or (x == 0).any():
            raise IndexError("no")
        return 2 * dy * x

    report = walked(at_four, regimes=["zeros"], sizes=(5,))
    assert report.ok
    assert [(t.regime, t.verdict, t.note) for t in report.regimes if t.verdict != "right"][:2] == [
        ("zeros", UNCLEAR, "backward refuses it: IndexError: no"),
        ("sizes", NOT_TRIED, "backward refuses it: IndexError: no"),
    ]


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


def test_the_default_makes_as_many_forwards_as_ever(monkeypatch):
    calls = []

    def counted(x):
        calls.append(x.shape)
        return square(x)

    monkeypatch.delattr("npformer.check.walk.in_regimes")
    npf.gradcheck((counted, square_backward), X)
    once = len(calls)
    npf.gradcheck((counted, square_backward), X, sizes=lambda n: [np.random.default_rng(n).normal(size=(2, n))])
    assert once < len(calls)


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
    assert "saturated below  1 WRONG: x, x" in lines
    assert "ties             1 right" in lines
    assert "repeated ids     1 not tried: there is no such input" in lines
    document = report.to_dict()
    assert not document["ok"]
    assert document["regimes"][0]["verdict"] == WRONG
    assert "regimes" not in npf.gradcheck((square, square_backward), X).to_dict()
