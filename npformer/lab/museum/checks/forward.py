"""Values of every forward, compared with a second implementation in plain NumPy (``second.py``).

A gradient check shows that backward is the derivative of *that* forward. It cannot show that the forward is
right; these checks do. Two more are of values that no claim of ``proof`` is about: huge scores, and the share that
dropout drops.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from npformer.backend import Backend
from npformer.functional import AttentionMask, Draw, merge_heads, split_heads
from npformer.lab.grader.tree import as_tuple
from npformer.lab.museum.checks.check import differ, normal, normals, of_backend
from npformer.lab.museum.checks.plain_transformer import sines
from npformer.lab.museum.checks.second import FORWARD


class _Compared(NamedTuple):
    """An operation on some inputs; outputs: their names; more: further inputs of npformer's forward alone."""

    op: str
    inputs: tuple[Any, ...]
    outputs: tuple[str, ...] = ("y",)
    more: tuple[Any, ...] = ()


def _alike(*compared: _Compared) -> Callable[[Backend], list[str]]:
    """A check that each of these forwards gives what the second implementation gives."""

    def find(backend: Backend) -> list[str]:
        problems = []
        for op, inputs, outputs, more in compared:
            y, _ = getattr(backend.ops, op).forward(*inputs, *more)
            expected = FORWARD[op](*inputs)
            for name, one, other in zip(outputs, as_tuple(y), as_tuple(expected), strict=True):
                problems += differ(name, one, other)
        return problems

    return find


def _positions(backend: Backend) -> list[str]:
    y, _ = backend.ops.sinusoidal_positions.forward(np.zeros((1, 4, 6)), 3)
    table, x = normals(6, (7, 6), (2, 3, 6))
    learned = _alike(_Compared("learned_positions", (x, table, 2), ("a learned position",)))
    return differ("sinusoidal position 3 …", y[0], sines(4, 6, 3)) + learned(backend)


def _heads(backend: Backend) -> list[str]:
    x = normal(14, 2, 3, 6)
    heads = FORWARD["heads"](x, 2)
    return differ("split", split_heads(x, 2), heads) + differ("merged", merge_heads(heads), x)


def _mask(backend: Backend) -> list[str]:
    problems = []
    keys = np.array([[1, 1, 1, 0, 1, 1]], dtype=bool)
    like = np.zeros((1, 1))
    for causal, offset, window in product((False, True), (0, 2), (None, 2)):
        seen = AttentionMask(keys, causal=causal, query_offset=offset, window=window).visible(4, 6, like)
        expected = np.zeros((4, 6), dtype=int)
        for i, j in product(range(4), range(6)):
            back = i + offset - j
            near = window is None or abs(back) < window
            expected[i, j] = keys[0, j] and near and (back >= 0 or not causal)
        got = np.broadcast_to(np.asarray(seen), (1, 1, 4, 6))[0, 0].astype(int)
        problems += differ(f"causal={causal}, offset={offset}, window={window}: visible", got, expected)
    return problems


def _huge(backend: Backend) -> list[str]:
    y, _ = backend.ops.softmax.forward(np.array([[1000.0, 1001.0], [-1000.0, -999.0]]))
    p = 1 / (1 + math.e)
    logits, targets = np.array([[[1000.0, 0.0, 500.0]]]), np.array([[2]])
    loss, cache = backend.ops.cross_entropy.forward(logits, targets, None, 0.0)
    dlogits = backend.ops.cross_entropy.backward(1.0, cache)
    return [
        *differ("softmax of 1000, 1001", y, [[p, 1 - p]] * 2),
        *differ("the loss", loss, 500.0),
        *differ("its gradient", dlogits, [[[1.0, 0.0, -1.0]]]),
    ]


def _statistics(backend: Backend) -> list[str]:
    draw, x = Draw(seed=1, step=2, micro=0, site=3, rate=0.2), np.ones(20000)
    y, _ = backend.ops.dropout.forward(x, draw)
    dropped, mean = float(np.mean(y == 0)), float(np.mean(y))
    problems = [] if abs(dropped - 0.2) < 0.02 else [f"{dropped:.3f} of the entries are dropped, expected about 0.2"]
    return problems + ([] if abs(mean - 1) < 0.02 else [f"the mean of 1s became {mean:.3f}, expected about 1"])


X, F, GAMMA, BETA = normals(15, (2, 3, 5), (2, 3, 5), (5,), (5,))
TOKENS, TARGETS = np.array([[3, 1, 3], [0, 5, 3]]), np.array([[1, 4, 0], [2, 0, 3]])
VISIBLE = np.array([[1, 1, 0, 1, 1], [1, 0, 0, 0, 0], [1, 1, 1, 1, 1]], dtype=bool)
LOSSES = [
    _Compared(
        "cross_entropy",
        (large * normal(24, 2, 3, 5), TARGETS, 0, smoothing),
        (f"the loss at smoothing {smoothing}, logits × {large:g}",),
    )
    for smoothing, large in product((0.0, 0.1), (1.0, 500.0))
]
_linear = _alike(_Compared("linear", normals(0, (2, 3, 4), (4, 5), (5,))))
_activations = _alike(*(_Compared(name, (2 * normal(3, 40),), (name,)) for name in ("relu", "gelu")))
_softmax = _alike(
    _Compared("softmax", (normal(4, 3, 5),)), _Compared("softmax", (normal(4, 3, 5), VISIBLE), ("masked y",))
)
_embedding = _alike(_Compared("embedding", (TOKENS, normal(5, 6, 4), 2.5)))
# a large ε, so that an ε outside the root is noticed
_layer_norm = _alike(_Compared("layer_norm", (3 + 2 * normal(8, 2, 3, 5), normal(9, 5), normal(10, 5), 0.1)))
_attention = _alike(_Compared("attention", normals(11, (2, 2, 3, 4), (2, 2, 5, 4), (2, 2, 5, 4)), ("out",)))
_sums = _alike(
    _Compared("residual", (X, F), ("x + f",), (None,)),
    _Compared("post_norm", (X, F, GAMMA, BETA), ("LN(x + f)",), (1e-5, None)),
    _Compared("add_norm", (X, F, GAMMA, BETA), ("the stream", "its norm"), (1e-5, None)),
)
_feed_forward = _alike(
    _Compared("feed_forward", normals(19, (2, 3, 4), (4, 6), (6,), (6, 4), (4,)), more=("relu", None))
)


CHECKS = of_backend(
    ("values of linear", "x W + b", _linear),
    ("values of activations", "max(x, 0) and x·Φ(x), with Python's own erf", _activations),
    ("values of softmax", "exp(x)/Σ exp(x) over the visible entries, rows that sum to 1", _softmax),
    ("values of embedding", "each token's row times the scale", _embedding),
    ("values of positions", "sines and cosines of the paper, position and offset; learned rows", _positions),
    ("values of layer_norm", "mean 0, variance 1 of each token, then γ and β", _layer_norm),
    ("values of attention", "softmax(QKᵀ/√D)V", _attention),
    ("values of heads", "head h owns the columns hD … hD+D−1", _heads),
    ("values of attention mask", "which query sees which key, pair by pair", _mask),
    ("values of sums and norms", "x + f, LN(x + f) and (x + f, LN(x + f))", _sums),
    ("values of feed_forward", "act(x W₁ + b₁) W₂ + b₂", _feed_forward),
    ("values of cross_entropy", "−Σ q log p per counted token, smoothing and padding included", _alike(*LOSSES)),
    ("huge scores", "softmax and loss stay finite at scores of 1000", _huge),
    ("dropout's statistics", "a share p is dropped and the mean stays", _statistics),
)
