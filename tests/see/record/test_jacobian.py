"""The terms of a gradient sum to it, entry by entry, for every operation; wrong requests are refused."""

import numpy as np
import pytest

import npformer as npf
from npformer.backend import PLAIN
from npformer.check.cases.op_samples import op_cases
from npformer.check.inputs import as_tuple
from npformer.errors import ConfigError
from npformer.functional import OPERATIONS
from npformer.functional.layer_norm import LAYER_NORM
from npformer.functional.linear import LINEAR
from npformer.see.record import jacobian
from npformer.see.record.calls import gradient_names
from npformer.see.record.jacobian import terms
from tests.check.functions import normals

CASES = list(op_cases())
normal = normals()
X, DY = normal(3, 2), normal(3, 4)
CACHE = npf.functional.linear_forward(X, normal(2, 4), normal(4))[1]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_terms_sum_to_the_gradient(case):
    row = OPERATIONS[case.name.partition(":")[0]]
    y, cache = row.forward(*case.inputs)
    draw = normals(7)
    dys = tuple(draw(*np.shape(part)) for part in as_tuple(y))
    dy = dys if isinstance(y, tuple) else dys[0]
    gradients = row.backward(dy, cache)
    for name, gradient in zip(gradient_names(row, len(gradients)), gradients, strict=True):
        parts = terms(row, cache, dy, name)
        assert [part.shape for part in parts] == [gradient.shape + one.shape for one in dys]
        flat = np.concatenate([part.reshape(*gradient.shape, -1) for part in parts], axis=-1)
        assert np.all(np.abs(flat.sum(axis=-1) - gradient) <= 1e-12 * np.abs(flat).max()), name
        index = tuple(size // 2 for size in gradient.shape)
        for one, part in zip(terms(row, cache, dy, name, index), parts, strict=True):
            assert np.array_equal(one, part[index])


def test_a_term_is_the_formulas():
    """dW_ij = Σ_n x_ni dy_nj: the term of dy_nj is x_ni·dy_nj, and no other dy_nk has one."""
    (dweight,) = terms(LINEAR, CACHE, DY, "weight")
    assert dweight.shape == (2, 4, 3, 4)
    expected = np.zeros_like(dweight)
    for j in range(4):
        expected[:, j, :, j] = (X * DY[:, [j]]).T
    assert np.allclose(dweight, expected, rtol=1e-15, atol=0)


def test_the_names_of_gradients():
    assert gradient_names(LAYER_NORM, 3) == ["x", "gamma", "beta"]
    assert gradient_names(OPERATIONS["embedding"], 1) == ["table"]
    assert gradient_names(PLAIN.cross_entropy, 1) == ["logits"]
    assert gradient_names((lambda a, b: None, lambda dy, cache: None), 2) == ["a", "b"]


def test_wrong_requests(monkeypatch):
    _, cache = npf.functional.relu_forward(np.ones((2, 3)))
    dy, relu = np.ones((2, 3)), OPERATIONS["relu"]
    with pytest.raises(ConfigError, match="y: expected an input that has a gradient, one of x"):
        terms(relu, cache, dy, "y")
    with pytest.raises(ConfigError, match="n: expected an input that has a gradient"):
        terms((lambda x, n: None, lambda dy, cache: (2 * dy, None)), None, np.ones(3), "n")
    monkeypatch.setattr(jacobian, "MOST", 35)
    with pytest.raises(ConfigError, match="x: expected at most 35 terms, got 36"):
        terms(relu, cache, dy, "x")
