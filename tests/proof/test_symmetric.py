"""structure="symmetric": a gradient may lie in either triangle, and counts by its symmetric part."""

import re

import numpy as np
import pytest

from npformer.errors import ConfigError, ShapeError
from npformer.proof import gradcheck
from npformer.proof.report import RIGHT, WRONG

RNG = np.random.default_rng(0)
A = RNG.normal(size=(2, 3, 3))  # a batch, not symmetric: it is made so
W = RNG.normal(size=(3, 3))


def lower_energy(a):
    """½·xᵀAx for the rows x of W, from A's lower triangle alone, as LAPACK reads it."""
    lower = np.tril(a)
    whole = lower + np.swapaxes(np.tril(a, -1), -1, -2)
    return np.einsum("ki,bij,kj->bk", W, whole, W) / 2, None


def spread(dy):
    """dA/2 with both triangles alike."""
    return np.einsum("bk,ki,kj->bij", dy, W, W) / 2


SPREADS = {
    "both triangles": spread,
    "lower triangle": lambda dy: 2 * np.tril(spread(dy)) - spread(dy) * np.eye(3),
    "upper triangle": lambda dy: 2 * np.triu(spread(dy)) - spread(dy) * np.eye(3),
}


@pytest.mark.parametrize("complex_step", [True, False])
@pytest.mark.parametrize("where", SPREADS)
def test_a_gradient_may_lie_in_either_triangle(where, complex_step):
    pair = (lower_energy, lambda dy, _: SPREADS[where](dy))
    report = gradcheck(pair, A, structure="symmetric", complex_step=complex_step)
    assert report.ok, report
    assert gradcheck(pair, A).ok is (where == "lower triangle")  # without structure: the entries that are read


def test_a_wrong_symmetric_part_is_wrong():
    pair = (lower_energy, lambda dy, _: 2 * np.tril(spread(dy)))  # the diagonal counts twice
    (row,) = gradcheck(pair, A, structure="symmetric", explain=False).rows
    assert (row.verdict, row.worst_index[1]) == (WRONG, row.worst_index[2])


def test_structure_by_name_leaves_other_square_inputs_alone():
    def forward(a, b):
        return np.linalg.inv(a) @ b, (a, b)

    def backward(dy, cache):
        a, b = cache
        db = np.linalg.inv(a).T @ dy
        return -db @ (np.linalg.inv(a) @ b).T, np.tril(db)

    a = np.eye(3) + 0.1 * W
    report = gradcheck((forward, backward), a, W, structure={"a": "symmetric"}, explain=False)
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

    report = gradcheck((forward, backward), A, structure="symmetric")
    assert report.rows[0].verdict == RIGHT
    (problem,) = report.problems
    assert problem.startswith("a second backward with the same cache gives another gradient of a (1.0e+00 of its size")
    assert any("not entered" in note for note in report.notes)
    one_sided = gradcheck((lower_energy, lambda dy, _: SPREADS["lower triangle"](dy)), A, structure="symmetric")
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
        gradcheck(pair, A, W[0], structure=structure)
    assert gradcheck(pair, A, W[0]).ok
