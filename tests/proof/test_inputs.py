"""What a forward may be called with: lists, dicts, numbers; what a backward may return for it; and names."""

import functools
import re
from typing import NamedTuple

import numpy as np
import pytest

from npformer.errors import ConfigError, DTypeError, ShapeError
from npformer.proof import gradcheck
from npformer.proof.report import NOTHING, RIGHT, WRONG

RNG = np.random.default_rng(0)
X, W, V, B = RNG.normal(size=(2, 3)), RNG.normal(size=(3, 4)), RNG.normal(size=(4, 2)), RNG.normal(size=(4,))


def verdicts(report):
    return {row.tensor: row.verdict for row in report.rows}


def chain(x, weights):
    return x @ weights[0] @ weights[1], (x, weights)


def chain_backward(dy, cache, factor=1):
    x, (w, v) = cache
    return dy @ v.T @ w.T, [x.T @ dy @ v.T, factor * (x @ w).T @ dy]


def test_a_list_is_checked_array_by_array():
    report = gradcheck((chain, chain_backward), X, [W, V])
    assert verdicts(report) == {"x": RIGHT, "weights[0]": RIGHT, "weights[1]": RIGHT}
    assert report.ok
    wrong = gradcheck((chain, functools.partial(chain_backward, factor=1.001)), X, [W, V], explain=False)
    assert verdicts(wrong) == {"x": RIGHT, "weights[0]": RIGHT, "weights[1]": WRONG}


def test_a_tuple_of_gradients_serves_a_list_and_the_types_of_inputs_are_kept():
    class Weights(NamedTuple):
        first: np.ndarray
        second: np.ndarray

    def forward(x, weights):
        return x @ weights.first @ weights.second, (x, weights)

    def backward(dy, cache):
        dx, dws = chain_backward(dy, cache)
        return dx, tuple(dws)

    report = gradcheck((forward, backward), X, Weights(W, V))
    assert verdicts(report) == {"x": RIGHT, "weights[0]": RIGHT, "weights[1]": RIGHT}


def affine(x, p):
    return p["scale"] * (x @ p["W"] + p["b"][0]), (x, p)


def affine_backward(dy, cache, factor=1):
    x, p = cache
    g = p["scale"] * dy
    return g @ p["W"].T, {"W": x.T @ g, "b": [factor * g.sum(axis=0)]}


PARAMETERS = {"W": W, "b": [B], "scale": 0.5, "ids": np.arange(3)}


def test_a_dict_is_checked_in_its_depth_and_what_is_passed_on_is_named():
    report = gradcheck((affine, affine_backward), X, PARAMETERS)
    assert verdicts(report) == {"x": RIGHT, "p['W']": RIGHT, "p['b'][0]": RIGHT}
    assert report.notes == ("passed on unchecked: p['scale'] (float 0.5), p['ids'] (int64 array)",)
    wrong = gradcheck((affine, functools.partial(affine_backward, factor=2)), X, PARAMETERS, explain=False)
    assert verdicts(wrong) == {"x": RIGHT, "p['W']": RIGHT, "p['b'][0]": WRONG}


@pytest.mark.parametrize(("factor", "verdict"), [(1, RIGHT), (1.001, WRONG)])
def test_a_float_in_a_dict_is_checked_if_a_gradient_of_it_is_in_what_came_back(factor, verdict):
    def backward(dy, cache):
        dx, dp = affine_backward(dy, cache)
        return dx, dp | {"scale": factor * np.sum(dy * (X @ W + B)), "ids": None}

    report = gradcheck((affine, backward), X, PARAMETERS, explain=False)
    assert verdicts(report) == {"x": RIGHT, "p['W']": RIGHT, "p['b'][0]": RIGHT, "p['scale']": verdict}
    assert report.notes == ("passed on unchecked: p['ids'] (int64 array)",)


@pytest.mark.parametrize(
    ("gradient", "text"),
    [
        ({"W": W}, "gradient of p: expected a dict like the input, with 'b' in it, got dict"),
        ({"W": W, "b": []}, "gradient of p['b']: expected a list like the input, with 0 in it, got list"),
        (W, "gradient of p: expected a dict like the input, with 'W' in it, got float64 array"),
    ],
)
def test_a_gradient_of_another_form_is_refused(gradient, text):
    with pytest.raises(ShapeError, match=f"^{re.escape(text)}$"):
        gradcheck((affine, lambda dy, cache: (dy @ W.T, gradient)), X, PARAMETERS)


def test_gradients_may_come_by_name():
    def backward(dy, cache):
        dx, dw = chain_backward(dy, cache)
        return {"weights": dw, "x": dx}

    assert verdicts(gradcheck((chain, backward), X, [W, V])) == {"x": RIGHT, "weights[0]": RIGHT, "weights[1]": RIGHT}


def power(x, c):
    return c * x**2, (x, c)


@pytest.mark.parametrize(("factor", "verdict"), [(1, RIGHT), (1.001, WRONG)])
def test_a_python_float_is_checked_if_backward_returns_a_gradient_for_it(factor, verdict):
    def backward(dy, cache):
        x, c = cache
        return dy * 2 * c * x, factor * float(np.sum(dy * x**2))

    report = gradcheck((power, backward), X, 0.5, explain=False)
    assert verdicts(report) == {"x": RIGHT, "c": verdict}
    assert report.rows[1].shape == ()
    assert report.notes == ()


@pytest.mark.parametrize(("factor", "verdict"), [(1, RIGHT), (1.001, WRONG)])
@pytest.mark.parametrize("structure", [None, "symmetric"])
def test_a_layer_s_float_too_and_one_beside_a_symmetric_matrix(factor, verdict, structure):
    class Power:
        def forward(self, x, c):
            return power(x, c)

        def backward(self, dy, cache):
            x, c = cache
            return dy * 2 * c * x, factor * float(np.sum(dy * x**2))

    report = gradcheck(Power(), RNG.normal(size=(3, 3)), 0.5, structure=structure, explain=False)
    assert verdicts(report) == {"x": RIGHT, "c": verdict}


def test_a_python_float_without_a_gradient_is_named():
    report = gradcheck((power, lambda dy, cache: dy * 2 * cache[1] * cache[0]), X, 0.5)
    assert verdicts(report) == {"x": RIGHT}
    assert report.notes == ("passed on unchecked: c (float 0.5)",)
    by_none = gradcheck((power, lambda dy, cache: (dy * 2 * cache[1] * cache[0], None)), X, 0.5)
    assert (verdicts(by_none), by_none.notes) == (verdicts(report), report.notes)


def test_floats_alone_are_checked():
    pair = (lambda a, b: (np.array([a * b, a]), (a, b)), lambda dy, c: (dy[0] * c[1] + dy[1], dy[0] * c[0]))
    assert verdicts(gradcheck(pair, 0.3, 0.7)) == {"a": RIGHT, "b": RIGHT}
    swapped = (pair[0], lambda dy, c: (dy[0] * c[0] + dy[1], dy[0] * c[1]))
    assert verdicts(gradcheck(swapped, 0.3, 0.7, explain=False)) == {"a": WRONG, "b": WRONG}


@pytest.mark.parametrize(("share", "verdict"), [(0.0, RIGHT), (1e-6, WRONG)])
def test_none_says_0_and_is_right_only_where_that_is_true(share, verdict):
    pair = (lambda x, z: (np.sin(x) + share * np.sum(z**2), x), lambda dy, x: (dy * np.cos(x), None))
    report = gradcheck(pair, X, V, explain=False)
    assert verdicts(report) == {"x": RIGHT, "z": verdict}


def test_a_single_none_for_a_single_input():
    assert verdicts(gradcheck((lambda x: (np.sin(x), x), lambda dy, x: None), X, explain=False)) == {"x": WRONG}
    assert verdicts(gradcheck((lambda x: (0 * x, x), lambda dy, x: None), X)) == {"x": NOTHING}


@pytest.mark.parametrize(
    ("gradient", "text"),
    [
        (lambda dy: dy.sum(axis=0, keepdims=True), "(1, 4); the numbers may be right: reshape them, or sum without"),
        (lambda dy: dy, "(2, 4); sum over the axes along which the input was broadcast"),
        (lambda dy: dy.sum(), "()"),
    ],
)
def test_a_gradient_of_another_shape_is_told_what_to_do(gradient, text):
    pair = (lambda x, b: (x @ W + b, None), lambda dy, _: (dy @ W.T, gradient(dy)))
    with pytest.raises(ShapeError, match=f"^gradient of b: expected {re.escape('(4,), got ' + text)}"):
        gradcheck(pair, X, B)


def test_a_gradient_in_a_list_must_be_float64_too():
    def backward(dy, cache):
        dx, (dw, dv) = chain_backward(dy, cache)
        return dx, [dw, dv.astype(np.float32)]

    with pytest.raises(DTypeError, match=r"^gradient of weights\[1\]: expected float64, as the input was given"):
        gradcheck((chain, backward), X, [W, V])


def test_names():
    pair = (lambda *xs: (xs[0] @ xs[1], xs), lambda dy, xs: (dy @ xs[1].T, xs[0].T @ dy))
    assert list(verdicts(gradcheck(pair, X, W))) == ["input0", "input1"]
    assert list(verdicts(gradcheck(pair, X, W, names=["query", "key"]))) == ["query", "key"]
    for names in (["query"], ["query", "query"]):
        text = f"names: expected 2 different names, one for each input, got {', '.join(names)}"
        with pytest.raises(ConfigError, match=f"^{text}$"):
            gradcheck(pair, X, W, names=names)


def test_inputs_are_given_in_new_memory_and_are_afterwards_what_they_were():
    def forward(x, weights):
        assert not any(np.shares_memory(a, b) for a, b in zip((x, *weights), (X, W, V), strict=True))
        return chain(x, weights)

    before = [a.copy() for a in (X, W, V)]
    gradcheck((forward, chain_backward), X, [W, V])
    for a, b in zip(before, (X, W, V), strict=True):
        np.testing.assert_array_equal(a, b)
