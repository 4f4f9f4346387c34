"""A change is a cause only if the gradient is right with it by the verdict's own limit, here and elsewhere."""

import math

import numpy as np
import pytest

from npformer.check import gradcheck
from tests.check.functions import diagnoses, inverse, normals

normal = normals(7)
LAST = {"axis": -1, "keepdims": True}


def told(forward, backward, *inputs, **options):
    """The diagnoses of the wrong tensors, without place."""
    by_tensor = diagnoses((forward, backward), *inputs, **options)
    assert by_tensor
    return {tensor: text[max(0, text.find("`")) :] for tensor, text in by_tensor.items()}


def gelu(x):
    t = np.tanh(0.7978845608028654 * (x + 0.044715 * x**3))
    return 0.5 * x * (1 + t), x


def gelu_with_few_digits(dy, x):
    t = np.tanh(0.79788456 * (x + 0.044715 * x**3))
    return dy * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.79788456 * (1 + 3 * 0.044715 * x * x))


def normalised(x, eps):
    n = np.sqrt((x * x).sum(**LAST))
    return x / (n + eps), (x, n, eps)


def normalised_with_eps_in_one_place(dy, cache):
    x, n, eps = cache
    return dy / n - x * (dy * x).sum(**LAST) / (n * (n + eps) ** 2)


def ratio(x, n):
    return x / n, (x, n)


def ratio_with_another_eps(dy, cache):
    x, n = cache
    return dy / n, -dy * x / n / (n + 1e-8)


P = np.random.default_rng(0).uniform(0.2, 0.9, (3, 4))
X43, X64, X35, W35, S33, V33 = (normal(*shape) for shape in ((4, 3), (6, 4), (3, 5), (3, 5), (3, 3), (3, 3)))


@pytest.mark.parametrize(
    ("forward", "backward", "inputs", "tensor", "text"),
    [
        (gelu, gelu_with_few_digits, (X43,), "x", "`0.79788456` should be `0.7978845608028654`, in 2 places"),
        (normalised, normalised_with_eps_in_one_place, (X43, 1e-8), "x", "`dy / n` should be `dy / (n + eps)`"),
        (ratio, ratio_with_another_eps, (X43, P.T + 1), "n", "`n + 1e-08` should be `n`"),
    ],
    ids=["digits", "eps forgotten", "eps too many"],
)
def test_a_small_error_is_told_by_what_mends_all_of_it(forward, backward, inputs, tensor, text):
    """Each error is between 1e-10 and 1e-7, where nearly every change seems to be near enough."""
    assert told(forward, backward, *inputs)[tensor] == text


def test_what_is_right_but_for_small_entries_is_no_cause():
    """Without `2 *` the large entries are right, here and elsewhere, and the small ones behind them are not."""
    sizes = np.array([1e12, 1.0, 1e12])

    def backward(dy, s):
        return 2 * dy * s + dy * (s < 2)

    diagnosis = told(lambda x: (x * sizes, sizes), backward, X43)["x"]
    assert "should be `dy" not in diagnosis


def test_two_small_errors_are_not_told_by_one():
    """Both are near 1e-9: without either one the gradient is nearer to the truth, and not right."""

    def deviation(x):
        h = x - x.mean(**LAST)
        return np.sqrt((h * h).mean(**LAST)), (h, np.sqrt((h * h).mean(**LAST)))

    def backward(dy, cache):
        h, deviation = cache
        return dy * (h + 4e-9 * np.sin(9 * h)) / (deviation + 2e-9) / h.shape[-1]

    assert told(deviation, backward, X35)["x"].startswith("no known pattern fits")


def halved(x, beta=0.5):
    return 0.5 * beta * x**2 + np.sin(x), (x, beta)


def halved_backward(dy, cache):
    x, beta = cache
    return dy * (beta * 2 * x + np.cos(x))


def cooled(x, temperature=2.0):
    return np.sin(x / temperature), (x, temperature)


def cooled_backward(dy, cache):
    x, temperature = cache
    return dy * np.cos(x / temperature) / 2 / temperature


@pytest.mark.parametrize(
    ("forward", "backward", "options", "text"),
    [
        (halved, halved_backward, {"beta": 0.5}, "`beta * 2` should be `beta`"),
        (cooled, cooled_backward, {}, "`dy * np.cos(x / temperature) / 2` should be `dy * np.cos(x / temperature)`"),
    ],
    ids=["an option", "a default in the cache"],
)  # fmt: skip
def test_a_number_is_no_cause_because_an_option_equals_it_here(forward, backward, options, text):
    """0.5 and beta are the same here, and differ elsewhere."""
    assert list(told(forward, backward, X43, **options).values()) == [text]


def p_norm(x, p):
    return (np.sqrt(x * x) ** p).sum(axis=-1), (x, p)


def p_norm_backward(dy, cache):
    x, p = cache
    return dy[:, None] * p * np.sign(x)


def test_a_power_is_no_cause_because_a_count_equals_it_here():
    """`x ** 2` is right for p = 3 alone."""
    text = told(p_norm, p_norm_backward, X64, p=3)["x"]
    assert "** 2" not in text
    assert "** 3" not in text


def dropped(x, keep, rate):
    return x * keep / (1 - rate), (keep, rate)


def test_a_rate_is_taken_from_one():
    def backward(dy, cache):
        keep, _rate = cache
        return dy * keep

    diagnosis = told(dropped, backward, X43, X43 > -0.5, rate=0.5)["x"]
    assert diagnosis == "`dy * keep` should be `dy * keep / (1 - _rate)`"


def test_an_option_that_backward_has_by_itself_stays():
    """Its own default does not move with the forward's option."""

    def forward(x, beta):
        return np.sin(beta * x), x

    def backward(dy, x, beta=0.5):
        return dy * np.cos(beta * x) / beta

    assert told(forward, backward, X43, beta=0.5)["x"].startswith("`dy * np.cos(beta * x) / beta` should be")


def rearranged(x):
    return x.reshape(2, 3, -1).swapaxes(0, 1).reshape(6, -1) * np.arange(6)[:, None], x.shape


def rearranged_backward(dy, shape):
    return (dy * np.arange(6)[:, None]).reshape(2, 3, -1).swapaxes(0, 1).reshape(shape)


def averaged(x):
    return np.sin(x).mean(axis=0), x


def averaged_backward(dy, x):
    return dy * np.cos(x) / x.shape[1]


def sums(x, w, v):
    return (x @ w) * v / np.sqrt(v.size), (x, w, v)


def sums_backward(dy, cache):
    x, w, v = cache
    dh = dy * v / np.sqrt(x.size)
    return w @ dh, x[:, None] * dh, dy * (x @ w) / np.sqrt(v.size)


def masked(x, mask):
    return np.where(mask, np.sin(x), x), (x, mask)


@pytest.mark.parametrize(
    ("forward", "backward", "inputs", "text"),
    [
        (
            rearranged,
            rearranged_backward,
            (X64,),
            "`(dy * np.arange(6)[:, None]).reshape(2, 3, -1)` should be",
        ),
        (averaged, averaged_backward, (X43,), "`x.shape[1]` should be `x.shape[0]`"),
        (sums, sums_backward, (normal(6), normal(6, 5), normal(5)), "`x.size` should be `v.size`"),
    ],
    ids=["2·3 = 6", "one axis for another", "no axis grows by itself"],
)
def test_lengths_that_fit_by_chance(forward, backward, inputs, text):
    (diagnosis,) = set(told(forward, backward, *inputs).values())
    assert diagnosis.startswith(text)
    assert "swapaxes(0, 2)" not in diagnosis


def chosen(z, t):
    p = np.exp(z) / np.exp(z).sum(**LAST)
    return -np.log(p[np.arange(len(t)), t]).mean(), (p, t)


def test_an_axis_that_needs_another_does_not_grow_alone():
    """The forward takes more rows than labels, and no backward is meant for that."""

    def backward(dy, cache):
        p, t = cache
        d = p.copy()
        d[np.arange(len(t)), t] -= 1
        return dy * d * len(t)

    assert told(chosen, backward, X43, np.array([0, 2, 1, 1])) == {"z": "`dy * d * len(t)` should be `dy * d / len(t)`"}


def test_a_point_counts_only_where_the_right_gradients_are_right():
    """That of b is right for four rows alone."""

    def backward(dy, cache):
        x, _ = cache
        return dy * np.sin(x), dy[:4].sum(axis=0)

    diagnosis = told(lambda x, b: (np.sin(x) + b, (x, b)), backward, X43, X43[0])
    assert diagnosis.keys() == {"x"}
    assert diagnosis["x"].replace("dy * ", "") == "`np.sin(x)` should be `np.cos(x)`"


def test_a_mask_that_is_all_true_is_not_dropped_as_the_cause():
    """Without the mask the gradient is right here, and wrong wherever the mask is False."""

    def backward(dy, cache):
        x, mask = cache
        return dy * np.cos(x) * (mask & (x > -9) & (x < 0.3))

    diagnosis = told(masked, backward, X43.T, np.ones((3, 4), bool))["x"]
    assert "should be `dy * np.cos(x)`" not in diagnosis


def linear(x, w):
    return x @ w, (x, w)


def test_what_spoils_a_right_tensor_is_refused():
    """Without `2 *` the gradient of x would be right, and that of w, which is right, would not."""

    def backward(dy, cache):
        x, w = cache
        dh = 2 * dy
        return dh @ w.T, x.T @ dh * 0.5

    diagnosis = told(linear, backward, X43, W35)
    assert diagnosis == {"x": "`dh @ w.T` should be `dy @ w.T`"}


def test_a_closure_keeps_its_variables():
    """Also those that a change no longer uses."""

    def made(factor):
        def backward(dy, x):
            return dy * np.cos(x) + factor * x

        return backward

    diagnosis = told(lambda x: (np.sin(x), x), made(3.0), X43)
    assert diagnosis == {"x": "`dy * np.cos(x) + factor * x` should be `dy * np.cos(x)`"}


def test_a_product_of_matrices_that_is_missing():
    def forward(x, w, v):
        return x @ w @ v, (x, w, v)

    def backward(dy, cache):
        x, w, _v = cache
        dh = dy
        return dh @ w.T, x.T @ dh, (x @ w).T @ dy

    diagnosis = told(forward, backward, X43, S33, V33)
    assert set(diagnosis.values()) == {"`dy` should be `dy @ _v.mT`"}


def test_a_symmetric_matrix():
    """Its gradient may be spread over both triangles in any way: it is mended where its symmetric part is right."""

    def backward(dy, y):
        g = y @ dy @ y + (y @ dy @ y).T
        return np.tril(g) + np.diag(np.diag(g)) / 2

    (row,) = gradcheck((inverse, backward), S33 @ S33.T + 2 * np.eye(3), structure="symmetric").rows
    assert row.verdict == "WRONG"
    assert row.diagnosis.endswith("`np.tril(g)` should be `-np.tril(g)`")


def test_the_users_functions_are_as_they_were():
    def helper(x):
        return 1 + x * x

    def backward(dy, y):
        return dy * helper(y)

    codes = backward.__code__, helper.__code__
    assert "`1 + x * x` should be `1 - x * x`" in told(lambda x: (np.tanh(x), np.tanh(x)), backward, X43)["x"]
    assert (backward.__code__, helper.__code__) == codes
    assert math.isclose(float(backward(1.0, 2.0)), 5.0)
