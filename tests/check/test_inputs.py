"""What a forward may be called with: lists, dicts, numbers; what a backward may return for it; and names.

With structure="symmetric" a gradient may lie in either triangle, and counts by its symmetric part.
"""

import re
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest

from npformer.check import gradcheck
from npformer.check.report import NOTHING, RIGHT, WRONG
from npformer.errors import ConfigError, DTypeError, ShapeError
from tests.check.functions import chain, chain_backward, normals, verdicts

normal = normals()
X, W, V, B = normal(2, 3), normal(3, 4), normal(4, 2), normal(4)


class Weights(NamedTuple):
    first: np.ndarray
    second: np.ndarray


def chain_of(x, weights):
    return chain(x, [weights.first, weights.second])


def in_a_tuple(dy, cache, factor):
    dx, dweights = chain_backward(dy, cache, factor)
    return dx, tuple(dweights)


def by_name(dy, cache, factor):
    dx, dweights = chain_backward(dy, cache, factor)
    return {"weights": dweights, "x": dx}


def affine(x, p):
    return p["scale"] * (x @ p["W"] + p["b"][0]), (x, p)


def affine_backward(dy, cache, factor=1):
    x, p = cache
    g = p["scale"] * dy
    return g @ p["W"].T, {"W": x.T @ g, "b": [factor * g.sum(axis=0)]}


def with_scale(dy, cache, factor):
    dx, dp = affine_backward(dy, cache)
    return dx, dp | {"scale": factor * np.sum(dy * (X @ W + B)), "ids": None}


def power(x, c):
    return c * x**2, (x, c)


def of_x_alone(dy, cache):
    x, c = cache
    return dy * 2 * c * x


def power_backward(dy, cache, factor):
    return of_x_alone(dy, cache), factor * float(np.sum(dy * cache[0] ** 2))


PARAMETERS = {"W": W, "b": [B], "scale": 0.5, "ids": np.arange(3)}
LIST, DICT = ["x", "weights[0]", "weights[1]"], ["x", "p['W']", "p['b'][0]"]
IDS = "p['ids'] (int64 array)"
#: what is given -> forward, backward, inputs, what is checked, the last of it wrong by a factor; what is passed on
CHECKS = {
    "a list": (chain, chain_backward, (X, [W, V]), LIST, ""),
    "a tuple of gradients of a NamedTuple": (chain_of, in_a_tuple, (X, Weights(W, V)), LIST, ""),
    "gradients by name": (chain, by_name, (X, [W, V]), LIST, ""),
    "a dict, in its depth": (affine, affine_backward, (X, PARAMETERS), DICT, f"p['scale'] (float 0.5), {IDS}"),
    "a float in a dict, with a gradient": (affine, with_scale, (X, PARAMETERS), [*DICT, "p['scale']"], IDS),
    "a float with a gradient": (power, power_backward, (X, 0.5), ["x", "c"], ""),
}


@pytest.mark.parametrize("passed", CHECKS)
def test_each_array_and_float_with_a_gradient_is_checked_and_what_is_passed_on_is_named(passed):
    forward, backward, inputs, names, unchecked = CHECKS[passed]
    for factor, last in ((1, RIGHT), (1.001, WRONG)):
        report = gradcheck((forward, partial(backward, factor=factor)), *inputs, explain=False)
        assert verdicts(report) == dict.fromkeys(names, RIGHT) | {names[-1]: last}
        assert report.notes == ((f"passed on unchecked: {unchecked}",) if unchecked else ())
        assert report.ok == (factor == 1)
        assert "c" not in names or report.rows[1].shape == ()


def test_none_says_0_and_is_right_only_where_that_is_true():
    for share, verdict, note, said in (
        (0.0, RIGHT, "backward returned None for z, whose gradient is 0", ""),
        (1e-6, WRONG, "backward returned None for z, whose gradient is not 0; name it in constant= if it wants none",
         "it is None where it is returned: test_inputs.py, line "),
    ):  # fmt: skip
        pair = (lambda x, z, s=share: (np.sin(x) + s * np.sum(z**2), x), lambda dy, x: (dy * np.cos(x), None))
        rows = gradcheck(pair, X, V).rows
        told = [(row.verdict, row.note, row.diagnosis.rstrip("0123456789")) for row in rows]
        assert told == [(RIGHT, "", ""), (verdict, note, said)]
    for forward, expected in ((np.sin, WRONG), (np.zeros_like, NOTHING)):
        assert verdicts(gradcheck((lambda x, f=forward: (f(x), x), lambda dy, x: None), X)) == {"x": expected}


def weighted(x, p, beta):
    return p["w"] * x + beta * p["v"], (p, beta)


@pytest.mark.parametrize(
    "rest",
    [lambda dv: ({"w": None, "v": dv}, None), lambda dv: ({"v": dv}, 7 * X), lambda dv: ({"v": dv},)],
    ids=["None", "anything", "left out"],
)
def test_constants_want_no_gradient_whatever_comes_back(rest):
    def backward(dy, cache):
        return dy * cache[0]["w"], *rest(dy * cache[1])

    inputs = X, {"w": X + 1, "v": X + 2}, X + 3
    for constant in (["p['w']", "beta"], ["p['w']", 2]):
        report = gradcheck((weighted, backward), *inputs, constant=constant, sample=lambda rng: inputs)
        assert report.ok, report
        assert verdicts(report) == {"x": RIGHT, "p['v']": RIGHT}
        assert report.notes == ("passed on unchecked: p['w'] (constant), beta (constant)",)


def test_a_constant_may_be_complex_and_keeps_its_layout_and_may_not_be_changed():
    turn = np.exp(1j * X).T.copy().T

    def forward(x, z, spoil=False):
        assert (z.dtype, z.flags.c_contiguous, type(z)) == (np.complex128, False, np.ndarray)
        if spoil:
            z *= 2
        return (x * z).real if np.isrealobj(x) else x * z.real, None

    pair = (forward, lambda dy, _: dy * turn.real)
    assert gradcheck(pair, X, turn, constant="z").ok
    (problem,) = gradcheck((forward, lambda dy, _: 2 * dy * turn.real), X, turn, constant="z", spoil=True).problems
    assert problem == "forward or backward changes its input z; work on a copy"


def test_a_layer_s_float_beside_a_symmetric_matrix():
    class Power:
        def forward(self, x, c):
            return power(x, c)

        def backward(self, dy, cache):
            return power_backward(dy, cache, 1.001)

    report = gradcheck(Power(), normal(3, 3), 0.5, structure="symmetric", explain=False)
    assert verdicts(report) == {"x": RIGHT, "c": WRONG}


@pytest.mark.parametrize(("constant", "shown"), [("q", "q"), ([0, 2], "2"), ("p['u']", r"p\['u'\]")])
def test_a_constant_that_is_no_input_is_refused(constant, shown):
    pair = (lambda x, p: (x * p["w"], None), lambda dy, _: (dy, None))
    with pytest.raises(
        ConfigError,
        match=rf"^constant: expected names or .* inputs, among x, p, or outputs as 'output 1', got {shown}$",
    ):
        gradcheck(pair, X, {"w": X}, constant=constant)


WAY = "make its real and imaginary parts two arrays, and put them together in forward; constant= names one"


@pytest.mark.parametrize(("inputs", "name"), [((X + 1j, X), "x"), ((X, X + 1j), "z"), ((X, [X, X + 1j]), r"z\[1\]")])
def test_complex_inputs_are_refused_with_the_way(inputs, name):
    with pytest.raises(DTypeError, match=f"^{name}: expected real numbers, got complex128; {WAY}"):
        gradcheck((lambda x, z: (x, None), lambda dy, _: (dy, None)), *inputs)


def test_complex_outputs_are_refused_with_the_way():
    """Their real parts alone would be checked: this backward, without the imaginary one, was called right."""
    pair = (lambda x: (np.exp(1j * x), x), lambda dy, x: -dy * np.sin(x))
    with pytest.raises(DTypeError, match=r"^forward: expected real outputs, got complex ones; return their real and"):
        gradcheck(pair, X)
    both = (lambda x: ((np.cos(x), np.sin(x)), x), lambda dy, x: dy[1] * np.cos(x) - dy[0] * np.sin(x))
    assert gradcheck(both, X).ok


@pytest.mark.parametrize(
    ("y", "kind"),
    [(lambda x: {"y": x}, "a dict"), (lambda x: (x, (x, x)), "a tuple in it")],
)
def test_outputs_of_another_form_are_refused_with_the_way(y, kind):
    text = f"^forward: expected an array or a flat tuple of arrays as its output, got {kind}; return its arrays in one"
    with pytest.raises(ConfigError, match=text):
        gradcheck((lambda x: (y(x), None), lambda dy, _: dy), X)


@pytest.mark.parametrize(
    ("gradient", "text"),
    [
        ({"W": W}, "gradient of p: expected a dict like the input, with 'b' in it, got dict"),
        ({"W": W, "b": []}, "gradient of p['b']: expected a list like the input, with 0 in it, got list"),
        (W, "gradient of p: expected a dict like the input, with 'W' in it, got float64 array"),
    ],
)
def test_a_gradient_of_another_form_is_refused(gradient, text):
    report = gradcheck((affine, lambda dy, cache: (dy @ W.T, gradient)), X, PARAMETERS)
    assert (report.ok, report.problems) == (False, (text,))


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
    report = gradcheck(pair, X, B)
    assert not report.ok
    assert report.problems[0].startswith(f"gradient of b: expected (4,), got {text}")
    turned = gradcheck((lambda w: (X @ w, None), lambda dy, _: dy.T @ X), W[:, :2])
    assert turned.problems[0].endswith("transpose it")


def test_names():
    pair = (lambda *xs: (xs[0] @ xs[1], xs), lambda dy, xs: (dy @ xs[1].T, xs[0].T @ dy))
    assert list(verdicts(gradcheck(pair, X, W))) == ["input0", "input1"]
    assert list(verdicts(gradcheck(pair, X, W, names=["query", "key"]))) == ["query", "key"]
    for names in (["query"], ["query", "query"]):
        text = f"names: expected 2 different names, one for each input, got {', '.join(names)}"
        with pytest.raises(ConfigError, match=f"^{text}$"):
            gradcheck(pair, X, W, names=names)


BATCH = normal(2, 3, 3)  # a batch, not symmetric: it is made so
ROWS = normal(3, 3)


def lower_energy(a):
    """½·xᵀAx for the rows x of ROWS, from A's lower triangle alone, as LAPACK reads it."""
    lower = np.tril(a)
    whole = lower + np.swapaxes(np.tril(a, -1), -1, -2)
    return np.einsum("ki,bij,kj->bk", ROWS, whole, ROWS) / 2, None


def spread(dy):
    """dA/2 with both triangles alike."""
    return np.einsum("bk,ki,kj->bij", dy, ROWS, ROWS) / 2


SPREADS = {
    "both triangles": spread,
    "lower triangle": lambda dy: 2 * np.tril(spread(dy)) - spread(dy) * np.eye(3),
    "upper triangle": lambda dy: 2 * np.triu(spread(dy)) - spread(dy) * np.eye(3),
}


@pytest.mark.parametrize("complex_step", [True, False])
@pytest.mark.parametrize("where", SPREADS)
def test_a_gradient_may_lie_in_either_triangle(where, complex_step):
    pair = (lower_energy, lambda dy, _: SPREADS[where](dy))
    report = gradcheck(pair, BATCH, structure="symmetric", complex_step=complex_step)
    assert report.ok, report
    assert gradcheck(pair, BATCH).ok is (where == "lower triangle")  # without structure: the entries that are read


def test_a_wrong_symmetric_part_is_wrong():
    pair = (lower_energy, lambda dy, _: 2 * np.tril(spread(dy)))  # the diagonal counts twice
    (row,) = gradcheck(pair, BATCH, structure="symmetric", explain=False).rows
    assert (row.verdict, row.worst_index[1]) == (WRONG, row.worst_index[2])


def test_structure_by_name_leaves_other_square_inputs_alone():
    def forward(a, b):
        return np.linalg.inv(a) @ b, (a, b)

    def backward(dy, cache):
        a, b = cache
        db = np.linalg.inv(a).T @ dy
        return -db @ (np.linalg.inv(a) @ b).T, np.tril(db)

    a = np.eye(3) + 0.1 * ROWS
    report = gradcheck((forward, backward), a, ROWS, structure={"a": "symmetric"}, explain=False)
    assert [row.verdict for row in report.rows] == [RIGHT, WRONG]


def test_what_a_backward_must_do_is_tried_with_a_structure_too():
    """And an input that was given unsymmetric, and is made symmetric, is not called changed."""

    def forward(a):
        if a.ndim == 2:
            a = a[None]
        return lower_energy(a)[0], np.ones(1)

    def backward(dy, once):
        once *= 2
        return spread(dy) * once / 2

    report = gradcheck((forward, backward), BATCH, structure="symmetric")
    assert report.rows[0].verdict == RIGHT
    (problem,) = report.problems
    assert problem.startswith("a second backward with the same cache gives another gradient of a (1.0e+00 of its size")
    assert any("not entered" in note for note in report.notes)
    one_sided = gradcheck((lower_energy, lambda dy, _: SPREADS["lower triangle"](dy)), BATCH, structure="symmetric")
    assert one_sided.problems == ()


@pytest.mark.parametrize(
    ("structure", "error", "text"),
    [
        ("diagonal", ConfigError, 'structure: expected "symmetric" or {name: "symmetric"} with names among a, v, got'),
        ({"b": "symmetric"}, ConfigError, "with names among a, v, got {'b': 'symmetric'}"),
        ({"v": "symmetric"}, ShapeError, "v: expected square matrices, got (3,); it cannot be symmetric"),
    ],
)
def test_another_structure_is_refused(structure, error, text):
    pair = (lambda a, v: (a @ v, (a, v)), lambda dy, c: (dy[..., None] * c[1], np.einsum("bi,bij->j", dy, c[0])))
    with pytest.raises(error, match=re.escape(text)):
        gradcheck(pair, BATCH, ROWS[0], structure=structure)
    assert gradcheck(pair, BATCH, ROWS[0]).ok


def test_bytes_in_the_other_order_are_checked_too():
    for factor, expected in ((1, RIGHT), (1.01, WRONG)):
        pair = (lambda x, z: (x * z, (x, z)), lambda dy, c, f=factor: (dy * c[1], f * dy * c[0]))
        for inputs in ((X, X[::-1].astype(">f8")), (X.astype(">f8"), X[::-1].astype(">f8"))):
            assert [row.verdict for row in gradcheck(pair, *inputs, explain=False).rows] == [RIGHT, expected]


def test_outputs_of_other_kinds_have_no_gradient():
    relu = (lambda x: ((x > 0, np.maximum(x, 0), np.argmax(x)), x), lambda dy, x: dy[1] * (x > 0))
    assert gradcheck(relu, X).ok
    assert not gradcheck((relu[0], lambda dy, x: 1.01 * dy[1] * (x > 0)), X, explain=False).ok
    with pytest.raises(ConfigError, match=r"^forward: expected an output of floating-point numbers, got bool$"):
        gradcheck((lambda x: (x > 0, x), lambda dy, x: dy), X)


def test_an_output_may_want_no_gradient():
    def forward(x):
        return (x * x, np.sqrt((x * x).sum())), x

    right, wrong = (lambda dy, x: 2 * dy[0] * x), (lambda dy, x: 2.02 * dy[0] * x)
    undeclared = gradcheck((forward, right), X)
    assert [(row.verdict, row.cause) for row in undeclared.rows] == [(WRONG, "ignored output")]
    assert "output 1" in undeclared.rows[0].diagnosis
    declared = gradcheck((forward, right), X, constant="output 1")
    assert declared.ok
    assert any(note.startswith("left out: output 1 wants no gradient") for note in declared.notes)
    assert not gradcheck((forward, wrong), X, constant="output 1", explain=False).ok
    assert gradcheck((forward, wrong), X).rows[0].cause != "ignored output"
    for constant in ("output 2", ("output 0", "output 1")):
        with pytest.raises(ConfigError, match="constant: expected some of output 0 to output 1, not all"):
            gradcheck((forward, right), X, constant=constant)
