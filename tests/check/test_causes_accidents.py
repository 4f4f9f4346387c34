"""A change that is right by accident is no cause: it hides an error, holds for tiny numbers alone, or takes a twin."""

import numpy as np

from tests.check.functions import diagnoses, normals, told
from tests.check.own_code import changed

normal = normals(23)
X43, Z43, V43 = normal(4, 3), 4 + 3 * normal(4, 3), normal(4, 3) ** 2 + 0.5
LAST = {"axis": -1, "keepdims": True}


def softmax(z):
    e = np.exp(z - z.max(**LAST))
    return e / e.sum(**LAST), z


def softmax_with_eps(dy, z):
    e = np.exp(z - z.max(**LAST))
    p = e / (e.sum(**LAST) + 1e-8)
    return p * (dy - (dy * p).sum(**LAST))


def test_a_change_that_makes_an_error_smaller_hides_it():
    """With `z + z.max()` the sums are thousands of times larger, and 1e-8 is as good as nothing beside them."""
    text = told((softmax, softmax_with_eps), Z43)
    assert text.endswith("`e.sum(**LAST) + 1e-08` should be `e.sum(**LAST)`")


def step(m, v, eps=2e-8):
    return m / (np.sqrt(v) + eps), (m, v, eps)


def step_backward(dy, cache):
    m, v, eps = cache
    root = np.sqrt(v)
    den = np.sqrt(v + eps)
    return dy / den, -dy * m / den**2 / (2 * root)


def test_an_equation_of_first_order_is_no_cause():
    """√(v + 2·eps·√v) differs from √v + eps by eps² alone."""
    by_tensor = diagnoses((step, step_backward), X43, V43)
    assert by_tensor
    assert not any("2 * root" in text for text in by_tensor.values())


def stages(x, w):
    return np.sin(x) / 6 + np.tanh(w) / 6, (x, w)


def stages_backward(dy, cache):
    x, w = cache
    first = dy / 6
    last = dy * 0.16666667
    return first * np.cos(x), last * (1 - np.tanh(w) ** 2)


def test_a_fraction_with_few_digits():
    assert told((stages, stages_backward), X43, V43).endswith("`0.16666667` should be `0.16666666666666666`")


def test_a_name_of_nearly_the_same_value_is_no_cause():
    """The mistake is where a value was made, and not where it is used."""
    rounded = changed(stages_backward, "0.16666667", "np.sum([0.1, 0.06, 0.006, 0.0006, 0.00006, 0.000006])")
    text = told((stages, rounded), X43, V43)
    assert "`last` should be `first" not in text
    assert "should be `dy / 6`" not in text
