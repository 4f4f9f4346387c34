"""Causes where people write: methods, closures and tapes, twins of a helper, other signatures, ways of the forward."""

import math
from functools import partial

import numpy as np
import pytest

from npformer.check import gradcheck
from npformer.check.adapters.stateful import from_object
from npformer.check.causes.paths import Slopes
from npformer.check.subject import Subject
from npformer.errors import ConfigError
from tests.check.functions import SOFTMAX, diagnoses, normals, told

normal = normals(5)
X, W = normal(6, 5), normal(5, 4)
LAST = {"axis": -1, "keepdims": True}
LN2 = math.log(2)


class Sigmoid:
    def forward(self, x):
        self.y = 1 / (1 + np.exp(-x))
        return self.y

    def backward(self, dy):
        return dy


def sig(y, deriv=False):
    return y * (1 - y) if deriv else 1 / (1 + np.exp(-y))


class Layer:
    def __init__(self):
        self.W = W.copy()

    def forward(self, x):
        self.x, self.out = x, sig(x @ self.W)
        return self.out

    def backward(self, dy):
        d = dy * sig(self.out)
        self.dW = self.x.T @ d
        return d @ self.W.T


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [(Sigmoid, "dy", "dy * (self.y * (1 - self.y))"), (Layer, "sig(self.out)", "sig(self.out, deriv=True)")],
)
def test_what_an_object_keeps_and_the_flag_of_a_helper(kind, old, new):
    assert told(from_object(kind()), X).endswith(f"in backward: `{old}` should be `{new}`")


def bits(x):
    return np.log(1 + x * x) / LN2, x


def bits_backward(dy, x):
    return dy * 2 * x / (1 + x * x)


def test_a_constant_of_the_module_is_a_factor():
    assert told((bits, bits_backward), X).endswith("should be `dy * 2 * x / (1 + x * x) / LN2`")


def halves(x):
    def power(v):
        return v**1.5

    return 1.7 * power(np.abs(x)), x


def unsourced(text):
    """A function whose source nobody can read, so that no line of it is searched."""
    return eval(text, globals())


halves_backward = unsourced("lambda dy, x: dy * 1.5 * np.sqrt(np.abs(x)) * np.sign(x)")


def test_a_literal_of_the_forward_names_a_factor_with_its_line():
    first = halves.__code__.co_firstlineno
    assert told((halves, halves_backward), X).startswith(
        f"it is 1/1.7 (line {first + 4}) = 0.5882 of what it should be everywhere"
    )


def returned_closure(x, w):
    h = x @ w

    def back(dy):
        dh = dy
        return dh @ w.T, x.T @ dh

    return np.maximum(h, 0), back


def test_a_closure_that_forward_returns_is_searched():
    said = told((returned_closure, lambda dy, back: back(dy)), X, W)
    assert said.endswith("in back: `dy` should be `dy * (h > 0)`")


class Value:
    """A node of a tape."""

    def __init__(self, data, parents=()):
        self.data, self.grad, self.parents, self.step = data, 0.0, parents, lambda: None

    def __add__(self, other):
        out = Value(self.data + other.data, (self, other))

        def step():
            self.grad = self.grad + out.grad
            other.grad = other.grad + out.grad

        out.step = step
        return out

    def __mul__(self, other):
        out = Value(self.data * other.data, (self, other))

        def step():
            self.grad = other.data * out.grad
            other.grad = self.data * out.grad

        out.step = step
        return out


def walk(value, seen):
    if value not in seen:
        seen.append(value)
        for parent in value.parents:
            walk(parent, seen)


def on_a_tape(x, w):
    a, b = Value(x), Value(w)
    y = a * b + a
    return y.data, (a, b, y)


def on_a_tape_backward(dy, cache):
    a, b, y = cache
    y.grad, order = dy, []
    walk(y, order)
    for value in sorted(order, key=lambda one: len(one.parents) and one is not y):
        value.step()
    return a.grad, b.grad


def test_a_rule_of_a_tape_is_told_and_not_what_walks_over_it():
    (said,) = diagnoses((on_a_tape, on_a_tape_backward), X, normal(6, 5)).values()
    assert said.endswith("in step: `self.grad = other.data * out.grad` should be `self.grad += other.data * out.grad`")


def late(x, w, v):
    steps = []
    for m in (w, v):
        steps.append(lambda dy: dy @ m.T)  # noqa: B023
        x = x @ m
    return x, steps


def late_backward(dy, steps):
    for step in steps[::-1]:
        dy = step(dy)
    return dy


def test_a_variable_of_a_loop_is_bound_too_late():
    said = told((lambda x: late(x, normals(1)(5, 5), normals(2)(5, 5)), late_backward), X)
    assert said.startswith("late binding: ")
    assert said.endswith("`dy` should be `dy, m=m`")


def norm(x):
    mu = x.mean(**LAST)
    var = ((x - mu) ** 2).mean(**LAST)
    return (x - mu) / np.sqrt(var + 1e-5), (x - mu, 1 / np.sqrt(var + 1e-5))


def norm_backward(dy, cache):
    _, r = cache
    return np.einsum("ij,ik->ij", dy, r)


def test_what_is_left_out_is_named_by_the_lines_of_the_forward():
    said, first = told((norm, norm_backward), X), norm.__code__.co_firstlineno
    assert said == (
        f"it leaves out what goes through `x.mean(**LAST)` (test_causes_people.py, line {first + 1}, in norm), and "
        f"through `((x - mu) ** 2).mean(**LAST)` (test_causes_people.py, line {first + 2}, in norm)"
    )


def squashed(x):
    h = np.tanh(x)
    return h * h.mean(**LAST), (x, h)


#: The mean's part is taken three times.
squashed_backward = unsourced(
    "lambda dy, cache: (1 - cache[1] ** 2) * (dy * cache[1].mean(**LAST) + 3 * (dy * cache[1]).mean(**LAST) * 1)"
)


def test_a_way_that_is_taken_several_times_is_told_with_its_factor():
    slopes = Slopes(Subject((squashed, squashed_backward), (X,)), (X,))
    assert np.allclose(slopes.measured(), [np.sum(_truth(squashed, X, X) * d) for _, d in slopes.directions], atol=1e-7)
    first = squashed.__code__.co_firstlineno
    assert told((squashed, squashed_backward), X) == (
        f"it takes what goes through `h.mean(**LAST)` (test_causes_people.py, line {first + 2}, in squashed) 3 times"
    )


def _truth(forward, x, dy):
    """∂Σ dy·y/∂x by differences, entry by entry."""
    steps = 1e-6 * np.eye(x.size).reshape(-1, *x.shape)
    return np.reshape([np.sum(dy * (forward(x + h)[0] - forward(x - h)[0])) for h in steps], x.shape) / 2e-6


def test_the_diagonal_of_a_jacobian_is_told():
    said = told((SOFTMAX[0], lambda dy, y: np.einsum("ij,ij,ij->ij", dy, y, 1 - y)), X)
    assert said.startswith("it takes only each entry's own share")


def test_few_digits_are_no_missing_sum():
    """Of a function of each entry alone, the own share is the whole gradient."""
    few = unsourced("lambda dy, y: dy * (1 - 0.9999999 * y * y)")
    assert told((lambda x: (np.tanh(x),) * 2, few), X) == "no known pattern fits"


def product(x, w):
    return x * np.sin(w), (x, w)


def gradients(dy, cache):
    x, w = cache
    return dy * np.sin(w), dy * x * np.cos(w)


FORMS = {
    "backward takes (cache, dy)": lambda cache, dy: gradients(dy, cache),
    "backward takes the parts of the cache one by one after dy": lambda dy, x, w: gradients(dy, (x, w)),
    "backward also needs lr": lambda dy, cache, lr: gradients(dy, cache),
    "backward returns a dict": lambda dy, cache: dict(zip(("dw", "dx"), gradients(dy, cache)[::-1], strict=True)),
    "backward returns tuples in tuples": lambda dy, cache: [gradients(dy, cache)[0], (gradients(dy, cache)[1],)],
}


@pytest.mark.parametrize(("said", "backward"), FORMS.items(), ids=FORMS)
def test_a_backward_of_another_form_is_recognised_by_trying(said, backward):
    report = gradcheck((product, backward), X, normal(6, 5))
    assert not report.ok
    assert report.problems[0].startswith(f"every gradient is right, but {said}")
    assert report.problems[0].endswith("expects the gradients of x, w, in this order")


def test_exchanged_arguments_of_one_shape_are_told():
    assert told((lambda x: (np.tanh(x),) * 2, lambda y, dy: dy * (1 - y * y)), X).startswith(
        "every gradient is right, but backward takes (cache, dy)"
    )


def test_a_wrong_backward_of_another_form_is_not_called_right():
    def backward(cache, dy):
        x, w = cache
        return dy * np.sin(w), dy * x * np.sin(w)

    (problem,) = gradcheck((product, backward), X, normal(6, 5)).problems
    assert "every gradient is right" not in problem


def test_an_object_that_needs_a_rate_is_told_what_to_write():
    class Learner(Layer):
        def backward(self, dy, lr):
            return dy @ self.W.T

    with pytest.raises(ConfigError, match=r"write def backward\(self, dy, lr=0.0\), and keep the gradient"):
        from_object(Learner())


def sign(x):
    return np.sign(x), x


def window(dy, x):
    return dy * (np.abs(x) <= 1)


def test_an_estimator_that_nobody_declared_is_recognised():
    assert "straight-through" in told((sign, window), X)
    assert gradcheck((sign, window), X, reference=(sign, window)).ok


@pytest.mark.parametrize("inputs", [-np.abs(X) - 0.1, np.abs(X) + 5], ids=["below", "above"])
def test_a_forward_that_is_flat_here_is_no_estimator(inputs):
    def clipped(x):
        return np.clip(x, 0, 5), x

    assert told((clipped, lambda dy, x: dy), inputs) == "it should be zero everywhere, and is not"


def test_gradients_that_are_all_0_recognise_no_other_form():
    assert "straight-through" in told((lambda x: (np.round(4 * x), None), lambda dy, cache: dy), X)


@pytest.mark.parametrize(
    ("backward", "said"),
    [
        (lambda dy, x: 2 * dy * (np.abs(x) <= 1), "it is 2 times too large everywhere"),
        (lambda dy, x: -dy * (np.abs(x) <= 1), "`-dy` should be `dy`"),
        (lambda dy, x: dy, "`dy` should be `dy * (np.abs(x) <= 1)`"),
        (unsourced("lambda dy, x: dy"), "should be 0 and are not, those with |x| > "),
    ],
    ids=["scaled", "sign", "window", "region"],
)
def test_a_declared_gradient_is_explained_beside_what_it_declares(backward, said):
    (row,) = gradcheck((sign, backward), X, reference=(sign, window)).rows
    assert row.verdict == "WRONG"
    assert said in row.diagnosis


def test_a_change_that_leaves_another_gradient_wrong_is_told_with_a_doubt():
    noise = normals(3)(6, 5)

    def backward(dy, cache):
        _, w = cache
        return dy * np.cos(w), np.einsum("ij,ij->ij", dy, noise)

    x, w = gradcheck((product, backward), X, normal(6, 5)).rows
    assert x.diagnosis.endswith("`np.cos(w)` could be `np.sin(w)`, for this gradient alone")
    assert w.diagnosis.startswith("no known pattern fits")
    assert x.cause == w.cause == "unknown"


def test_a_number_that_a_partial_gives_is_a_constant_of_the_forward():
    def leaky(x, slope):
        return np.where(x > 0, x, slope * x), x

    def backward(dy, x, slope):
        return np.where(x > 0, dy, slope * dy)

    said = told((partial(leaky, slope=0.2), partial(backward, slope=0.01)), X)
    assert said.endswith("`slope` should be `0.2`")


def test_a_tape_that_is_a_default_argument_is_told():
    def forward(x, tape=[]):  # noqa: B006
        tape.append(lambda g: 2 * g)
        return 2 * x, tape

    def backward(dy, tape):
        for step in tape:
            dy = step(dy)
        return dy

    (problem,) = gradcheck((forward, backward), X).problems
    assert problem.endswith("; a default of forward is one list for all calls")


def test_a_change_that_heals_by_a_copy_is_told_as_shared_memory():
    def backward(dy, y):
        dx = dy
        dx *= 1 - y * y
        return dx, dy

    said = diagnoses((lambda x, b: (np.tanh(x) + b, np.tanh(x)), backward), X, X)
    assert said["b"].startswith("shared memory: ")


def test_a_bug_in_a_large_point_is_sought_at_a_small_one_and_holds_there():
    def backward(dy, cache):
        x, w, y = cache
        dz = dy * (1 - y) / 30
        return dz @ w.T, x.T @ dz

    def forward(x, w):
        y = np.tanh(x @ w / 30)
        return y, (x, w, y)

    assert told((forward, backward), normal(300, 200), normal(200, 50)).endswith("`y` should be `y ** 2`")


def test_a_rule_of_torch_with_several_statements_is_searched():
    torch = pytest.importorskip("torch")

    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, scale):
            ctx.scale = scale
            return x * scale

        @staticmethod
        def backward(ctx, dy):
            dx = dy
            return dx, None

    assert told(Scaled, X, 3.7).endswith("in backward: `dy` should be `dy * ctx.scale`")
