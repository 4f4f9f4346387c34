"""What gradcheck is given becomes arrays; what wants no gradient is marked as constant."""

import numpy as np
import pytest

from npformer.check.checkable import Constant
from npformer.check.prepared import prepared
from tests.check.functions import normal

X = normal(2, 3)
PAIR = (lambda x, p, ids: (x, None), lambda dy, _: dy)


def constants(inputs, constant=()):
    """The inputs as they are prepared, and whether each leaf is a constant: x, p[0], p[1], ids."""
    x, p, ids = prepared(PAIR, inputs, None, constant)
    return [x, *p, ids], [isinstance(leaf, Constant) for leaf in (x, *p, ids)]


@pytest.mark.parametrize(
    ("constant", "expected"),
    [("x", [1, 0, 0, 0]), (1, [0, 1, 1, 0]), ("p[1]", [0, 0, 1, 0]), ((0, "p[0]"), [1, 1, 0, 0]), ("ids", [0] * 4)],
    ids=str,
)
def test_names_positions_and_leaves_are_constants(constant, expected):
    leaves, constants_by_name = constants((X, [X, X.copy()], np.arange(2)), constant)
    assert constants_by_name == [bool(e) for e in expected]
    np.testing.assert_array_equal(leaves[0], X)
    np.testing.assert_array_equal(leaves[3], [0, 1])


def test_tensors_that_require_no_gradient_are_constants_if_others_do():
    """NumPy's arrays cannot require one, and count as those that do."""
    torch = pytest.importorskip("torch")
    free, kept = torch.tensor(X), torch.tensor(X, requires_grad=True)
    leaves, constants_by_name = constants((kept, [free, X], np.arange(2)))
    assert constants_by_name == [False, True, False, False]
    assert all(isinstance(leaf, np.ndarray) for leaf in leaves)
    assert constants((free, [free, X], np.arange(2)))[1] == [False] * 4
