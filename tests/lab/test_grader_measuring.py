"""A gradient that is measured, by whatever function, is told from one that is derived, however slowly."""

import pytest

from npformer.lab.grader import report
from tests.lab.learner import FILES, each, graded, said

RELU = """import numpy as np
def relu_forward(x):
    is_open = x > 0
    return np.where(is_open, x, 0.0), x
"""
GELU = """import math
import numpy as np
erf = np.vectorize(math.erf, otypes=[float])
def gelu_forward(x):
    return x * 0.5 * (1.0 + erf(x / math.sqrt(2.0))), x
"""
SOFTMAX = """import numpy as np
def softmax_forward(x, visible=None):
    scores = x if visible is None else np.where(visible, x, -np.inf)
    top = np.max(scores, axis=-1, keepdims=True)
    powers = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
    total = np.sum(powers, axis=-1, keepdims=True)
    return powers / np.where(total == 0, 1.0, total), (x, visible)
"""


@each(("text", "sign"), FILES["measured"])
def test_what_is_measured_is_refused_and_its_sign_told(tmp_path, text, sign):
    found = graded(tmp_path, text)
    assert not found.ok
    (told,) = [f.reason for f in found.findings if f.name == "backward"]
    assert sign in told
    assert "derived here, not measured" in told
    assert "dx is not right" not in report.verdict(found)


IN_ITS_OWN_LINES = """def {}_backward(dy, cache):
    x, visible = cache if isinstance(cache, tuple) else (cache, None)
    d = np.zeros(x.shape)
    for i in np.ndindex(x.shape):
        ends = []
        for h in ({h}, -{h}):
            z = x.copy()
            z[i] += h
            {}
            ends.append((dy * y).sum())
        d[i] = (ends[0] - ends[1]) / (2 * {h})
    return d
"""
WORDS = {
    "gelu": (GELU, "y = z * 0.5 * (1.0 + erf(z / math.sqrt(2.0)))"),
    "softmax": (
        SOFTMAX,
        "y = np.exp(z - z.max(-1, keepdims=True)) * (1 if visible is None else visible)\n            "
        "y = y / np.maximum(y.sum(-1, keepdims=True), 1e-300)",
    ),
}


@pytest.mark.parametrize("h", [1e-4, 1e-6])
@pytest.mark.parametrize("name", WORDS)
def test_differences_in_the_backwards_own_lines_are_told_by_their_precision(tmp_path, name, h):
    forward, line = WORDS[name]
    found = graded(tmp_path, forward + IN_ITS_OWN_LINES.replace("{h}", repr(h)).format(name, line))
    assert not found.ok
    assert "measured by differences" in said(found)


SLOW = """def row(y, dy, i, acc):
    for j in range(y.size):
        acc[i] += dy[j] * y[j] * ((i == j) - y[i])
    return acc
def softmax_backward(dy, cache):
    y = softmax_forward(*cache)[0]
    d = np.zeros(y.shape)
    for place in np.ndindex(y.shape[:-1]):
        acc = np.zeros(y.shape[-1])
        for i in range(y.shape[-1]):
            acc = row(y[place], dy[place], i, acc)
        d[place] = acc
    return d
"""
HELPERS = """def put(d, i, value):
    d[i] = value
    return d
def relu_backward(dy, cache):
    d = cache.copy()
    for i in np.ndindex(d.shape):
        d = put(d, i, dy[i] if cache[i] > 0 else 0.0)
    return d
"""


@pytest.mark.parametrize("text", [SOFTMAX + SLOW, RELU + HELPERS], ids=["forward once more", "number by number"])
def test_a_derivative_by_loops_and_helpers_is_right(tmp_path, text):
    found = graded(tmp_path, text)
    assert found.ok, report.report(found, 3, "")
