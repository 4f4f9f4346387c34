"""A reference's gradients at places: by its backward, the complex step or differences; and its formula's terms."""

import numpy as np
import pytest

from npformer.check.rounding.reference import DIRECTIONS, SAMPLED, Reference
from tests.check.functions import normal, normals

X, W = normals(2)(2, 3), 1 + normal(3, seed=3) ** 2
R = (normal(2, 3, seed=4),)


def forward(x, w):
    return np.sin(x) * w, (x, w)


def backward(dy, cache):
    x, w = cache
    return dy * np.cos(x) * w, np.sum(dy * np.sin(x), axis=0)


def looked(reference_target, x=X, w=W, upstream=R):
    """The reference, with its places chosen for gradients that grow with their index; and what it says of them."""
    reference = Reference(reference_target, [x, w], names=("x", "w"))
    claimed = {"x": np.arange(x.size, dtype=float).reshape(x.shape), "w": np.zeros(w.shape)}
    return reference, reference.look(claimed, upstream, 0)


WAYS = {
    "pair": (forward, backward),
    "forward": lambda x, w: forward(x, w)[0],
    "forward with a cache": forward,
    "not analytic": lambda x, w: np.sin(x) * np.abs(w),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("moved", [0.0, 0.3])
def test_gradients_at_places_are_of_the_point_that_is_asked_for(way, moved):
    reference, remark = looked(WAYS[way])
    assert (remark, reference.has_backward) == ("", way == "pair")
    x, w = X + moved, W + moved
    dx, dw = backward(R[0], (x, w))
    numeric = reference.gradients(R, {"x": x, "w": w})
    np.testing.assert_allclose(numeric["x"], [*dx.ravel(), *dx.sum(axis=0), *dx.sum(axis=1), dx.sum()], rtol=1e-9)
    np.testing.assert_allclose(numeric["w"], [*dw, dw.sum()], rtol=1e-9)


@pytest.mark.parametrize(
    ("shape", "axes"),
    [((2, 3), ((0,), (1,), (0, 1))), ((3, 1), ((0, 1),)), ((1, 3, 2), ((1,), (2,), (0, 1, 2))), ((1,), ()), ((), ())],
)
def test_sums_are_over_each_axis_of_several_entries_and_over_all(shape, axes):
    reference = Reference((lambda x: (x, None), lambda dy, _: dy), [X])
    reference.look({"x": np.ones(shape)}, R, 0)
    assert reference.places["x"].axes == axes


def test_of_many_entries_the_largest_are_sampled_and_others_and_directions():
    x, w = normal(4, 400), np.ones(400)
    reference, remark = looked(WAYS["forward"], x, w, (normal(4, 400, seed=1),))
    entries = reference.places["x"].entries
    assert len(np.unique(entries)) == SAMPLED
    assert np.all(np.isin(np.arange(1600 - SAMPLED // 2, 1600), entries))
    assert reference.places["x"].directions.shape == (DIRECTIONS, 1600)
    assert reference.places["x"].axes == ()
    assert remark.startswith("a forward alone is differentiated once for each entry: 200 of 2000 entries and 4 random")
    pair, remark = looked(WAYS["pair"], x, w)
    assert (remark, len(pair.places["x"].entries)) == ("", 1600)


def test_a_kink_at_the_point_does_not_spoil_the_complex_step():
    """Whether that is fit is looked at nearby; at the kink itself differences would say ½."""
    x = np.where(np.arange(6).reshape(2, 3) == 4, 0, X)
    reference, _ = looked(lambda x, w: np.where(x.real > 0, x, 0) * w, x, W)
    numeric = reference.gradients(R, {"x": x, "w": W})["x"][:6]
    np.testing.assert_allclose(numeric.reshape(2, 3), R[0] * W * (x > 0), rtol=1e-15)


def with_terms(dy, cache):
    x, w = cache
    first = dy * np.cos(x) * w - x + x
    return first - (x - dy) + (x + -dy), np.sum(dy * np.sin(x), axis=0)


def test_the_terms_of_a_formula_are_named_with_what_they_add():
    reference, _ = looked((forward, with_terms))
    at = {"x": X, "w": W}
    terms = reference.terms(R, at, reference.gradients(R, at))
    x, dy = X.ravel(), R[0].ravel()
    expected = {"- (x - dy)": dy - x, "- dy": dy, "+ -dy": -dy, "+ (x + -dy)": x - dy, "- x": -x, "+ x": x}
    for text, lost in expected.items():
        np.testing.assert_allclose(terms[text]["x"][:6], lost, atol=1e-12, err_msg=text)
    assert looked(WAYS["forward"])[0].terms(R, at, {}) == {}
