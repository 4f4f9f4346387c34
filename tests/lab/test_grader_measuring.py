"""A gradient that is measured, by whatever function, is told from one that is derived, however slowly."""

import pytest

from npformer.lab.grader import report
from tests.lab.learner import each, graded, said

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
DIFFERENCES = """def {}_backward(dy, cache):
    x = cache.copy()
    d = np.zeros(x.shape)
    for i in np.ndindex(x.shape):
        old = x[i]
        x[i] = old + 1e-6; above = f(x)
        x[i] = old - 1e-6; below = f(x)
        x[i] = old
        d[i] = np.sum(dy * (above - below)) / 2e-6
    return d
"""
COPY = """def g(x):
    '''Mine.'''
    is_open = x > 0
    return np.where(is_open, x, 0.0), x
f = lambda x: g(x)[0]
"""
IN_PLACE = """def relu_backward(dy, cache):
    x = cache.copy(); f = lambda: np.maximum(x, 0); d = np.zeros(x.shape)
    for i in np.ndindex(x.shape):
        x[i] += 1e-6; a = f(); x[i] -= 2e-6; d[i] = np.sum(dy * (a - f())) / 2e-6; x[i] += 1e-6
    return d
"""
STEPS = """def f(z): return np.where(z.real > 0, z, 0)
def relu_backward(dy, cache):
    d = np.zeros(cache.shape)
    for i in np.ndindex(d.shape):
        e = np.zeros(d.shape, complex); e[i] = 1e-30j
        d[i] = np.sum(dy * f(cache + e).imag) / 1e-30
    return d
"""
#: Whole files, and the sign by which each is known.
MEASURED = {
    "an alias": (RELU + "again = relu_forward\nf = lambda z: again(z)[0]\n" + DIFFERENCES.format("relu"), "again"),
    "by the table of modules": (
        RELU + "import sys\nf = lambda z: vars(sys.modules['exercise'])['relu_forward'](z)[0]\n"
        + DIFFERENCES.format("relu"), "again"),
    "a copy": (RELU + COPY + DIFFERENCES.format("relu"), "again"),
    "other words": (RELU + "def f(z): return np.maximum(z, 0)\n" + DIFFERENCES.format("relu"), "one number moved"),
    "NumPy's words": (RELU + "f = lambda z: z.clip(0)\n" + DIFFERENCES.format("relu"), "one number moved"),
    "an array moved in place": (RELU + IN_PLACE, "one number moved"),
    "complex steps of a copy": (RELU + STEPS, "complex numbers"),
    "a complex step in the backward's own lines": (
        RELU + "def relu_backward(dy, cache): return dy * np.where(cache > 0, cache + 1e-30j, 0).imag / 1e-30\n",
        "complex numbers"),
    "without the profile": (
        RELU + "import sys\ndef f(z): return np.maximum(z, 0)\n"
        + DIFFERENCES.format("relu").replace("old =", "sys.setprofile(None); old ="), "sys.setprofile"),
    "a complex step made from text": (
        RELU + "def relu_backward(dy, cache):\n    z = cache + complex('1e-30j')\n"
        "    return dy * np.where(cache > 0, z, 0).imag / 1e-30\n", "complex numbers"),
}  # fmt: skip


@each(("text", "sign"), MEASURED)
def test_what_is_measured_is_refused_and_its_sign_told(tmp_path, text, sign):
    found = graded(tmp_path, text)
    assert not found.ok
    (told,) = [f.text for f in found.findings if f.name == "backward"]
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


@pytest.mark.parametrize("h", [1e-4, 1e-5, 3e-6, 1e-6])
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
