"""A user's own operation or layer beside npformer's: the sentence names the term that is wrong."""

import math
import operator
import re
from functools import partial

import numpy as np
import pytest

from npformer import functional
from npformer.check import gradcheck
from npformer.layers import EncoderLayer, LayerNorm
from tests.check.functions import normals
from tests.check.own_code import line_of
from tests.check.small_models import NoSkip

normal = normals()
MEAN = {"axis": -1, "keepdims": True}


def linear_backward(dy, cache, *, mean=False):
    x, weight = cache
    dbias = dy.mean(axis=(0, 1)) if mean else dy.sum(axis=(0, 1))
    return dy @ weight.T, np.tensordot(x, dy, 2 * [[0, 1]]), dbias


def softmax_forward(x):
    powers = np.exp(x)
    return powers / powers.sum(**MEAN), powers / powers.sum(**MEAN)


def softmax_backward(dy, p, *, jacobian=True, sign=-1, inner=True):
    if not jacobian:
        return p * dy
    return p * (dy + sign * np.sum(dy * p if inner else dy, **MEAN))


def layer_norm_forward(x, gamma, beta, eps):
    u = x - x.mean(**MEAN)
    r = (np.mean(u * u, **MEAN) + eps) ** -0.5
    return u * r * gamma + beta, (u * r, r, gamma)


def layer_norm_backward(dy, cache, *, without=""):
    z, r, gamma = cache
    g = dy if without == "gamma" else dy * gamma
    dx = g.copy()
    if without != "mean":
        dx -= g.mean(**MEAN)
    if without != "projection":
        dx -= z * np.mean(g * z, **MEAN)
    sums = {"axis": (0, 1)}
    return r * dx, np.sum(dy if without == "z" else dy * z, **sums), dy.sum(**sums)


def embedding_backward(dy, cache, *, scaled=True, accumulate=True):
    tokens, rows, scale = cache
    dtable = np.zeros((rows, dy.shape[-1]))
    if accumulate:
        np.add.at(dtable, tokens, dy)
    else:
        dtable[tokens] = dy
    return scale * dtable if scaled else dtable


def attention_forward(q, k, v):
    p = softmax_forward(np.einsum("bhtd,bhsd->bhts", q, k) / math.sqrt(q.shape[-1]))[0]
    return p @ v, (q, k, v, p)


def attention_backward(dout, cache, *, without=""):
    q, k, v, p = cache
    dp = dout @ v.swapaxes(-1, -2)
    ds = p * (dp - (0 if without == "softmax" else np.sum(dp * p, **MEAN)))
    s = 1 / math.sqrt(q.shape[-1])
    return (1 if without == "scale q" else s) * (ds @ k), s * (ds.swapaxes(-1, -2) @ q), p.swapaxes(-1, -2) @ dout


X = normal(2, 3, 5)
INPUTS = {
    "linear": (X, normal(5, 4), normal(4)),
    "softmax": (X,),
    "layer_norm": (X, normal(5), normal(5), 1e-5),
    "embedding": (np.array([[1, 4, 0], [2, 0, 3]]), normal(6, 4), 2.5),
    "attention": tuple(normal(3, 2, 2, 3, 6)),
}


class Hidden:
    """A function that keeps its source to itself."""

    def __init__(self, function, times=(), **options):
        self._called, self._times = partial(function, **options), times

    def __call__(self, dy, cache):
        grads = self._called(dy, cache)
        return tuple(map(operator.mul, self._times, grads)) if self._times else grads


def check(op, inputs=None, **mistake):
    """Diagnosis of each wrong tensor, for a backward without a source of its own: npformer's term, no line."""
    forward = globals().get(f"{op}_forward", getattr(functional, f"{op}_forward"))
    backward = globals()[f"{op}_backward"]
    report = gradcheck((forward, Hidden(backward, **mistake)), *(inputs or INPUTS[op]))
    return {row.tensor: shortened(row.diagnosis) for row in report.rows if not row.ok}


def shortened(text):
    """The sentence on another's code as that on npformer's own: `a` became `b` (function)."""
    pattern = r"where npformer's (\w+) computes (`.*?`), these numbers come from (`.*`)"
    return re.sub(pattern, r"\2 became \3 (\1)", text)


def test_the_users_own_operations_are_right():
    assert [check(op) for op in INPUTS] == [{}] * len(INPUTS)


@pytest.mark.parametrize(
    ("op", "mistake", "tensors", "words"),
    [
        ("linear", {"times": (2, 1, 1)}, "x", "scale by 2: `xp.matmul(dy_rows, xp.matrix_transpose(weight))`"),
        (
            "linear",
            {"mean": True},
            "bias",
            "sum to mean: `xp.sum(dy_rows, axis=0)` became `xp.mean(dy_rows, axis=0)`",
        ),
        ("linear", {"times": (1, -1, 1)}, "weight", "change a sign … -dweight"),
        ("softmax", {"jacobian": False}, "x", "drop a term"),
        ("softmax", {"sign": 1}, "x", "change a sign"),
        ("softmax", {"inner": False}, "x", "drop a factor"),
        ("layer_norm", {"without": "mean"}, "x", "drop a term: `g - along_one` became `g`"),
        ("layer_norm", {"without": "projection"}, "x", "drop a term … became `g - along_one`"),
        ("layer_norm", {"without": "gamma"}, "x", "drop a factor: `dy * gamma` became `dy`"),
        ("layer_norm", {"times": (1, 1, -1)}, "beta", "change a sign: `xp.sum(dy, axis=tokens)`"),
        ("embedding", {"scaled": False}, "table", "drop a factor: `scale * "),
        ("embedding", {"accumulate": False}, "table", "assigned"),
        ("attention", {"without": "scale q"}, "q", "drop a factor: `xp.matmul(dscores, k) * scale`"),
        ("attention", {"without": "softmax"}, "q k", "drop a term … softmax_backward"),
    ],
    ids=str,
)
def test_the_sentence_names_the_wrong_term(op, mistake, tensors, words):
    diagnosis = check(op, **mistake)
    assert list(diagnosis) == tensors.split()
    for text in diagnosis.values():
        for word in words.split(" … "):
            assert word in text
        assert text.endswith((f"({op}_backward)", "(softmax_backward)", "assigned instead of accumulated?"))
        assert ", line" not in text


def test_the_same_name_for_something_else_is_not_compared():
    """A softmax at temperature 2 is not npformer's; its mistake is read from the numbers alone."""

    def softmax_forward(x):
        powers = np.exp(x / 2)
        return powers / powers.sum(**MEAN), powers / powers.sum(**MEAN)

    (row,) = gradcheck((softmax_forward, lambda dy, p: softmax_backward(dy, p)), X).rows
    assert row.cause == "scaled by 2"
    assert row.diagnosis.startswith("it is 2 times too large everywhere: test_diagnosis_mutants.py, line ")
    (row,) = gradcheck((softmax_forward, Hidden(lambda dy, p: p * dy / 2)), X).rows
    assert row.cause == "unknown"

    def relu_forward(x, leak, more):
        return np.where(x.real > 0, x, leak * x), None

    (row,) = gradcheck((relu_forward, lambda dy, _: 0 * dy), X, 0.1, 0.2).rows
    assert row.cause == "zero"


def test_a_large_input_checked_along_directions_is_explained_as_well():
    large = normal(40, 9, 8), normal(8), normal(8), 1e-5
    diagnosis = check("layer_norm", large, without="z")
    assert diagnosis["gamma"].startswith("drop a factor: `dy * x_hat` became `dy`")


class Doubled(LayerNorm):
    def backward(self, dy, cache):
        return 2 * super().backward(dy, cache)


def test_a_layer_derived_from_npformers(numpy64):
    layer = NoSkip(4, 2, 6, backend=numpy64)
    report = gradcheck(layer, X[..., :4])
    wrong = [row for row in report.rows if not row.ok]
    assert {row.tensor for row in wrong} >= {"x", "norm1.gamma", "self_attention.query.weight"}
    assert {row.cause for row in wrong} == {"missing term"}
    assert all(row.diagnosis.startswith("missing term: small_models.py, line ") for row in wrong)
    assert not [name for name in vars(layer) if "backward" in name]


def test_a_derived_layer_inside_another(numpy64):
    layer = EncoderLayer(4, 2, 6, backend=numpy64)
    layer.norm1 = Doubled(4, backend=numpy64)
    wrong = [row for row in gradcheck(layer, X[..., :4]).rows if not row.ok]
    (text,) = {row.diagnosis for row in wrong}
    place = f"test_diagnosis_mutants.py, line {line_of(Doubled.backward, '2 * ')}, in backward: "
    assert text == f"extra factor: {place}`2 * super().backward(dy, cache)` should be `super().backward(dy, cache)`"
