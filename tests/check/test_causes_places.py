"""A mistake is told by the user's own file, line and term, wherever the user's code stands; or by none."""

import importlib.util
import inspect
import linecache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npformer.check.adapters.stateful import from_object
from tests.check.functions import SOFTMAX as SOFTMAX_PAIR
from tests.check.functions import normals, told
from tests.check.own_code import Network, Plus, Untransposed, line_of

Host = np.ndarray[Any, Any]
normal = normals()
X = normal(3, 5)
TOKENS, GAMMA, BETA = normal(2, 3, 4), normal(4), normal(4)
LAST = {"axis": -1, "keepdims": True}

LAYER_NORM = """import numpy as np


def layer_norm_forward(x, gamma, beta, eps=1e-5):
    mu = x.mean(axis=-1, keepdims=True)
    inv = 1 / np.sqrt(((x - mu) ** 2).mean(axis=-1, keepdims=True) + eps)
    xhat = (x - mu) * inv
    return gamma * xhat + beta, (xhat, inv, gamma)


def layer_norm_backward(dout, cache):
    xhat, inv, gamma = cache
    g = dout * gamma
    along = (g * xhat).mean(axis=-1, keepdims=True)
    dx = inv * (g - g.mean(axis=-1, keepdims=True))
    return dx, (dout * xhat).sum(axis=(0, 1)), dout.sum(axis=(0, 1))
"""
ATTENTION = """import numpy as np
from softmaxes import softmax_backward, softmax_forward


def attention_forward(q, k, v):
    p, _ = softmax_forward(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]))
    return p @ v, (q, k, v, p)


def attention_backward(dout, cache):
    q, k, v, p = cache
    s = np.sqrt(q.shape[-1])
    ds = softmax_backward(dout @ v.swapaxes(-1, -2), p)
    return ds @ k / s, ds.swapaxes(-1, -2) @ q / s, p.swapaxes(-1, -2) @ dout
"""
SOFTMAX = """import numpy as np


def softmax_forward(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    y = e / e.sum(axis=-1, keepdims=True)
    return y, y


def softmax_backward(dy, y):
    return y * (dy + (dy * y).sum(axis=-1, keepdims=True))
"""


def softmax_forward(x):
    return SOFTMAX_PAIR[0](x)


def module(path, text):
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_a_file_of_the_users(tmp_path):
    """It has npformer's names, and not npformer's lines."""
    mine = module(tmp_path / "mine.py", LAYER_NORM)
    text = told((mine.layer_norm_forward, mine.layer_norm_backward), TOKENS, GAMMA, BETA)
    line = LAYER_NORM.splitlines().index("    dx = inv * (g - g.mean(axis=-1, keepdims=True))") + 1
    assert text.startswith(f"missing term: mine.py, line {line}, in layer_norm_backward: `")
    taken = "g.mean(axis=-1, keepdims=True)"  # the line has another g
    assert text.endswith(f"`g - {taken}` should be `g - along * xhat - {taken}`")
    assert "npformer" not in text


def test_statistics_that_were_taken_for_constants(tmp_path):
    """Both terms of the norm are missing, and neither mean is in the source."""
    text = LAYER_NORM.replace("    along = (g * xhat).mean(axis=-1, keepdims=True)\n", "").replace(
        "inv * (g - g.mean(axis=-1, keepdims=True))", "inv * g"
    )
    mine = module(tmp_path / "mine.py", text)
    assert told((mine.layer_norm_forward, mine.layer_norm_backward), TOKENS, GAMMA, BETA) == (
        "missing term: mine.py, line 14, in layer_norm_backward: `g` should be `g - g.mean(axis=-1, keepdims=True) - "
        "xhat * (g * xhat).mean(axis=-1, keepdims=True)`"
    )


def test_a_function_that_the_backward_calls_in_another_file(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "softmaxes.py").write_text(SOFTMAX)
    mine = module(tmp_path / "mine.py", ATTENTION)
    q, k, v = normal(2, 3, 4), normal(2, 5, 4), normal(2, 5, 4)
    text = told((mine.attention_forward, mine.attention_backward), q, k, v)
    line = len(SOFTMAX.splitlines())
    assert text == (
        f"sign: softmaxes.py, line {line}, in softmax_backward: `dy + (dy * y).sum(axis=-1, keepdims=True)` should be "
        "`dy - (dy * y).sum(axis=-1, keepdims=True)`"
    )


def test_a_lambda():
    backward = lambda dy, y: y * (dy + (dy * y).sum(**LAST))  # noqa: E731
    text = told((softmax_forward, backward), X)
    assert text.startswith(f"sign: test_causes_places.py, line {backward.__code__.co_firstlineno}: `dy + (dy * y)")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y * dy", "missing term: … `y * dy` should be `y * dy - y * (y * dy).sum(axis=-1, keepdims=True)`"),
        (
            "y * (dy - (dy * y).sum())",
            "summed axis: … `(dy * y).sum()` should be `(dy * y).sum(axis=1, keepdims=True)`",
        ),
        ("y * (dy - dy.sum(axis=-1, keepdims=True))", "missing factor: … `dy` should be `dy * y`"),
    ],
)
def test_what_a_softmax_lacks(body, expected):
    """A sum that is nowhere in the source is made."""
    assert told((softmax_forward, eval_with_source(f"lambda dy, y: {body}")), X) == expected.replace(
        "…", "line 1 of its cell:"
    )


def eval_with_source(text):
    file = f"/tmp/ipykernel_12/{len(text)}.py"
    linecache.cache[file] = (len(text), None, [text], file)
    return eval(compile(text, file, "eval"), {})


def test_two_lambdas_on_one_line():
    pair = (lambda x: (np.tanh(x), np.tanh(x))), (lambda dy, y: dy * (1 + y * y))
    assert "`1 + y * y` should be `1 - y * y`" in told(pair, X)


class Pure:
    """Keeps nothing: its backward takes a cache, as that of a pair. Its annotations are no places of a mistake."""

    def forward(self, x: Host):
        return softmax_forward(x)

    def backward(self, dy: Host, y: Host) -> Host:
        return y * (dy + (dy * y).sum(**LAST))


@pytest.mark.parametrize(
    ("target", "kind", "line", "should"),
    [
        (from_object(Untransposed(5, 5)), Untransposed, "return dy @", "`dy @ self.W` should be `dy @ self.W.mT`"),
        (from_object(Network(Plus(), Plus())), Plus, "1 + ", "`1 + self.y ** 2` should be `1 - self.y ** 2`"),
        (Pure(), Pure, "dy + ", "should be `dy - "),
    ],
    ids=["an object", "an object inside another", "an object like a pair"],
)
def test_a_method(target, kind, line, should):
    """And the class has its own method again afterwards."""
    method = kind.backward
    text = told(target, X)
    assert f": {Path(inspect.getsourcefile(kind)).name}, line {line_of(method, line)}, in backward: " in text
    assert should in text
    assert kind.backward is method
