"""Gradients of JAX code: right ones pass, wrong rules do not, and JAX's settings stay as they are."""

import numpy as np
import pytest

from npformer import from_jax, gradcheck
from npformer.check.adapters.jax_pair import in_numpy
from npformer.check.subject import Subject
from npformer.errors import ConfigError, DTypeError
from tests.check.own_code import line_of
from tests.interop.conftest import expect_right

jax = pytest.importorskip("jax", reason="JAX is not installed: pip install 'npformer[jax]'")
jnp = jax.numpy

RNG = np.random.default_rng(0)
X, W = RNG.normal(size=(3, 4)), RNG.normal(size=(4, 2))


def test_what_stops_a_gradient_is_told_with_its_line():
    def softmax(x):
        e = jnp.exp(x)
        return e / jax.lax.stop_gradient(e.sum(axis=-1, keepdims=True))

    (row,) = gradcheck(from_jax(softmax), X).rows
    assert row.cause == "cut graph"
    place = f"test_jax_pair.py, line {line_of(softmax, 'stop_gradient')}, in softmax: "
    stopped = "e.sum(axis=-1, keepdims=True)"
    assert row.diagnosis == f"cut graph: {place}`jax.lax.stop_gradient({stopped})` should be `{stopped}`"


def in_numpy_at(function, dy, *inputs):
    subject = Subject(from_jax(function), inputs)
    return subject.gradients((dy,)), in_numpy(subject, type(subject.target.owner), [(dy,)])


def test_a_rule_is_searched_in_numpy_unless_it_needs_more():
    dy = RNG.normal(size=X.shape)
    gradients, (run, names) = in_numpy_at(make_scaled_sine(1.5), dy, X, X + 1)
    assert names["jnp"] is np
    assert all(np.allclose(g, run(0)[name], rtol=1e-12) for name, g in gradients.items())
    first_row = jax.custom_vjp(lambda x: x)
    first_row.defvjp(lambda x: (x, None), lambda _, dy: (dy.at[0].multiply(2.0),))
    assert in_numpy_at(first_row, dy, X)[1] is None


def make_scaled_sine(factor):
    """A custom_vjp, y = x sin(w), whose gradient of w is off by a factor."""

    @jax.custom_vjp
    def scaled_sine(x, w):
        return x * jnp.sin(w)

    def forward(x, w):
        return scaled_sine(x, w), (x, w)

    def backward(cache, dy):
        x, w = cache
        return dy * jnp.sin(w), factor * dy * x * jnp.cos(w)

    scaled_sine.defvjp(forward, backward)
    return scaled_sine


def test_a_rule_of_ones_own_is_checked_by_the_names_of_its_inputs():
    right = gradcheck(from_jax(make_scaled_sine(1.0)), X, X + 1)
    expect_right(right, "x", "w")
    assert right.name == "scaled_sine"
    wrong = gradcheck(from_jax(make_scaled_sine(1.001)), X, X + 1)
    assert [row.ok for row in wrong.rows] == [True, False]
    assert wrong.rows[1].ratio == pytest.approx(1.001)


def test_jax_settings_stay_as_they_are():
    before = jax.config.jax_enable_x64, jnp.ones(2).dtype
    pair = from_jax(jnp.sin)
    y, cache = pair.forward(X)
    assert y.dtype == np.float64
    assert pair.backward(y, cache)[0].dtype == np.float64
    assert (jax.config.jax_enable_x64, jnp.ones(2).dtype) == before


def test_jitted_functions_several_outputs_and_integers():
    @jax.jit
    def both(tokens, table):
        rows = table[tokens]
        return {"y": jnp.tanh(rows), "best": jnp.argmax(rows.real, axis=-1), "sum": rows.sum(axis=0)}

    expect_right(gradcheck(from_jax(both), np.array([1, 0, 1]), W), "table")


def test_a_tree_of_parameters():
    tree = {"in": {"w": W.astype("float32"), "b": np.ones(2)}, "out": [RNG.normal(size=(2, 2)), 3]}

    def network(parameters, x, scale=1.0):
        hidden = jnp.tanh(x @ parameters["in"]["w"] + parameters["in"]["b"])
        return scale * hidden @ parameters["out"][0] * parameters["out"][1]

    expect_right(gradcheck(from_jax(network, parameters=tree), X, scale=2.0), "x", "in.b", "in.w", "out.0")
    assert tree["in"]["b"].tolist() == [1, 1]


def rule(forward, backward):
    """A custom_vjp of forward(x), which keeps x for backward."""
    function = jax.custom_vjp(lambda x: forward(x))
    function.defvjp(lambda x: (forward(x), x), lambda x, dy: (backward(x, dy),))
    return function


def test_a_rule_that_draws_numbers_of_its_own():
    """By a key it draws the same each time, and its numbers show which; NumPy's are others at each call."""
    mask = lambda x, key: jax.random.bernoulli(jax.random.key(key), 0.5, x.shape) * x  # noqa: E731
    report = gradcheck(from_jax(rule(lambda x: mask(x, 0), lambda x, dy: mask(dy, 1))), X + 3, explain=False)
    assert (report.ok, report.problems) == (False, ())
    report = gradcheck(from_jax(rule(lambda x: 2 * x, lambda x, dy: 2 * dy * np.random.random())), X, explain=False)
    assert report.problems[0].startswith("backward is not deterministic: two runs from fresh caches differ by ")


def layer_norm_forward(x):
    centred = x - x.mean(axis=-1, keepdims=True)
    r = 1 / jnp.sqrt((centred * centred).mean(axis=-1, keepdims=True) + 1e-5)
    return centred * r, (centred * r, r)


def layer_norm_backward(cache, dy):
    x_hat, r = cache
    along_x_hat = (dy * x_hat).mean(axis=-1, keepdims=True)
    return (r * (dy - dy.mean(axis=-1, keepdims=True) + x_hat * along_x_hat),)


def test_the_line_of_a_rule():
    layer_norm = jax.custom_vjp(lambda x: layer_norm_forward(x)[0])
    layer_norm.defvjp(layer_norm_forward, layer_norm_backward)
    (row,) = gradcheck(from_jax(layer_norm), X).rows
    assert (row.verdict, row.cause) == ("WRONG", "sign")
    assert row.diagnosis == (
        f"sign: test_jax_pair.py, line {line_of(layer_norm_backward, 'return')}, in layer_norm_backward: "
        "`dy - dy.mean(axis=-1, keepdims=True) + x_hat * along_x_hat` should be "
        "`dy - dy.mean(axis=-1, keepdims=True) - x_hat * along_x_hat`"
    )
    assert layer_norm.bwd is layer_norm_backward


def test_what_wants_no_gradient_and_complex_numbers():
    function = make_scaled_sine(2.0)
    expect_right(gradcheck(from_jax(function), X, X + 1, constant="w"), "x")
    with pytest.raises(DTypeError, match=r"^z: expected real numbers, got complex128; make its real and imaginary"):
        gradcheck(from_jax(lambda z: z * 2), X + 1j)
    with pytest.raises(DTypeError, match=r"^w: expected real numbers, got complex128"):
        gradcheck(from_jax(lambda p, x: x * p["w"].real, parameters={"w": W[0, 0] * np.ones(4, complex)}), X)
    with pytest.raises(DTypeError, match="expected real outputs, got complex ones; return their real and imaginary"):
        gradcheck(from_jax(lambda x: jnp.exp(1j * x)), X)


def test_what_is_refused():
    with pytest.raises(ConfigError, match="expected a function of JAX arrays, got an object of type int"):
        from_jax(3)
    with pytest.raises(ConfigError, match=r"a dict of arrays, which would go unchecked; say from_jax\(function, param"):
        gradcheck(from_jax(lambda p, x: p["w"] * x), {"w": X}, X)
    with pytest.raises(ConfigError, match="expected a function that returns arrays, got NoneType"):
        gradcheck(from_jax(lambda x: None), X)
    with pytest.raises(TypeError, match="imaginary parts are lost"):
        from_jax(jnp.abs).forward(X + 1j)
    erf = from_jax(lambda x: jax.scipy.special.erf(x))
    with pytest.raises(TypeError, match="expected JAX to run it on complex numbers"):
        erf.forward(X + 1j)
    assert gradcheck(erf, X).ok


TRANSFORMED = {
    "as it is": lambda f: f,
    "vmap": jax.vmap,
    "checkpoint": jax.checkpoint,
    "jit of vmap": lambda f: jax.jit(jax.vmap(f)),
}


@pytest.mark.parametrize("through", TRANSFORMED)
def test_rules_inside_of_transformations_are_checked(through):
    for factor in (1.0, 1.01):
        sine = rule(jnp.sin, lambda x, dy, factor=factor: factor * dy * jnp.cos(x))
        assert gradcheck(TRANSFORMED[through](sine), X, explain=False).ok == (factor == 1)


def test_an_output_whose_gradient_jax_stops_is_left_out():
    def with_mean(x):
        return jnp.sin(x), jax.lax.stop_gradient(x.mean())

    report = gradcheck(from_jax(with_mean), X)
    assert report.ok
    assert any(note.startswith("left out: output 1 wants no gradient") for note in report.notes)
