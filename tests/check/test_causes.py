"""The mistake in a backward is found by undoing it, and its line is named."""

import numpy as np
import pytest

from npformer.check import gradcheck
from tests.check.functions import normals
from tests.check.own_code import changed

normal = normals()
X, W, B = normal(4, 3), normal(3, 5), normal(5)


def linear_layer(x, w, b):
    h = x @ w + b
    return np.tanh(h), (x, w, np.tanh(h))


def right(dy, cache):
    x, w, y = cache
    dh = dy * (1 - y * y)
    return dh @ w.T, x.T @ dh, dh.sum(axis=0)


def check(backward):
    return gradcheck((linear_layer, backward), X, W, B)


@pytest.mark.parametrize(
    ("old", "new", "tensors", "cause", "line"),
    [
        ("dy * (1 - y * y)", "dy", ["x", "w", "b"], "missing factor", "line 3 of right: "),
        ("sum(axis=0)", "mean(axis=0)", ["b"], "scaled by 1/N = 0.25", ""),
        ("1 - y * y", "1 + y * y", ["x", "w", "b"], "sign", "line 3 of right: "),
        ("", "", [], "", ""),
    ],
    ids=["no derivative", "averaged", "sign", "right"],
)
def test_one_mistake_is_named_for_all_that_it_spoils(old, new, tensors, cause, line):
    rows = check(changed(right, old, new) if old else right).rows
    causes = {row.tensor: row.cause for row in rows if row.cause}
    assert causes == dict.fromkeys(tensors, cause)
    assert line in rows[0].diagnosis


def test_of_two_mistakes_both_are_found():
    two_mistakes = changed(changed(right, "sum(axis=0)", "mean(axis=0)"), "dh @ w.T", "-(dh @ w.T) * 3")
    causes = {row.tensor: row.cause for row in check(two_mistakes).rows if row.verdict == "WRONG"}
    assert causes.keys() == {"x", "b"}
    assert causes["b"] == "scaled by 1/N = 0.25"
    assert causes["x"] != "unknown"


def test_a_cache_is_left_as_it_was():
    """A change that is tried may write into what it is given."""
    kept = []

    def forward(x):
        table = np.array([1.0, 2.0, 3.0])
        kept.append(table)
        return x * table, (x, table)

    def backward(dy, cache):
        _, table = cache
        scaled = dy * table
        scaled += dy
        return scaled

    (row,) = gradcheck((forward, backward), X).rows
    assert row.cause == "extra term"
    assert all(np.array_equal(table, [1, 2, 3]) for table in kept)
