"""Awkward inputs and dropout: fully masked rows, huge scores, constant tokens, masks and their statistics."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np

from npformer.backend import Backend
from npformer.functional import AttentionMask, Draw
from npformer.functional.dropout import DropoutCache
from npformer.lab.museum.checks.check import differ, normal, normals, of_backend, small_config
from npformer.layers import CacheStack, Context, EncoderLayer, RandomKey, SinusoidalPositions
from npformer.models import Transformer
from npformer.proof.case import shaken
from npformer.typing import HostArray


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


def _nothing(backend: Backend) -> list[str]:
    q, k, v = normals(1, (2, 1, 3, 4), (2, 1, 5, 4), (2, 1, 5, 4))
    mask = AttentionMask(np.array([[False] * 5, [True] * 5]))
    out, cache = backend.ops.attention.forward(q, k, v, mask)
    gradients = backend.ops.attention.backward(normal(4, *out.shape), cache)
    problems = differ("the output of a query that sees nothing", out[0], np.zeros_like(out[0]))
    for name, gradient in zip("qkv", gradients, strict=True):
        problems += differ(f"d{name} where nothing is seen", gradient[0], np.zeros_like(gradient[0]))
    return problems


def _hidden(backend: Backend) -> list[str]:
    q, k, v = normals(5, (1, 1, 3, 4), (1, 1, 5, 4), (1, 1, 5, 4))
    mask = AttentionMask(np.array([[True, False, True, True, False]]))
    out, cache = backend.ops.attention.forward(q, k, np.ones_like(v), mask)
    problems = differ("attention to values that are all 1", out, np.ones_like(out))
    _, dk, dv = backend.ops.attention.backward(normal(8, *out.shape), cache)
    for name, gradient in (("k", dk), ("v", dv)):
        problems += differ(f"d{name} at hidden keys", gradient[0, 0, [1, 4]], np.zeros((2, 4)))
    poisoned = v.copy()
    poisoned[0, 0, [1, 4]] = 1e6
    outs = [backend.ops.attention.forward(q, k, values, mask)[0] for values in (v, poisoned)]
    return problems + differ("the output after a hidden value was changed", outs[1], outs[0])


def _constant(backend: Backend) -> list[str]:
    x, gamma, beta = np.full((2, 4), 3.0), normal(9, 4), normal(10, 4)
    y, cache = backend.ops.layer_norm.forward(x, gamma, beta, 1e-5)
    into = np.zeros(4), np.zeros(4)
    dx = backend.ops.layer_norm.backward(normal(11, 2, 4), cache, into=into)
    finite = all(bool(np.isfinite(part).all()) for part in (dx, *into))
    return differ("y of a constant row", y, np.stack([beta] * 2)) + ([] if finite else ["a gradient is not finite"])


def _statistics(backend: Backend) -> list[str]:
    draw, x = Draw(seed=1, step=2, micro=0, site=3, rate=0.2), np.ones(20000)
    y, _ = backend.ops.dropout.forward(x, draw)
    dropped, mean = float(np.mean(y == 0)), float(np.mean(y))
    problems = [] if abs(dropped - 0.2) < 0.02 else [f"{dropped:.3f} of the entries are dropped, expected about 0.2"]
    return problems + ([] if abs(mean - 1) < 0.02 else [f"the mean of 1s became {mean:.3f}, expected about 1"])


def _own_mask(backend: Backend) -> list[str]:
    x, pair = np.ones(400), backend.ops.dropout
    first, cache = pair.forward(x, Draw(seed=1, step=2, micro=0, site=3, rate=0.3))
    pair.forward(x, Draw(seed=1, step=2, micro=0, site=4, rate=0.3))
    return differ("the gradient of ones, where y is what it should be,", pair.backward(np.ones(400), cache), first)


def _places(backend: Backend) -> list[str]:
    problems = []
    for norm_order in ("post", "pre"):
        layer = EncoderLayer(8, 2, 12, dropout=0.5, norm_order=norm_order, backend=backend)
        _, cache = shaken(layer).forward(normal(12, 2, 3, 8), context=Context(key=RandomKey(seed=5)))
        masks = [keep for keep in _masks_in(cache) if keep.shape == (2, 3, 8)]
        if len(masks) != 2:
            problems.append(f"{norm_order}-LN: expected 2 masks of sub-layers, found {len(masks)}")
        problems += [
            f"{norm_order}-LN: two sub-layers draw one mask" for a, b in combinations(masks, 2) if (a == b).all()
        ]
    return problems


def _masks_in(cache: Any) -> Iterator[HostArray]:
    """Every dropout mask inside a cache, however deep."""
    if isinstance(cache, DropoutCache):
        if cache.keep is not None:
            yield np.asarray(cache.keep)
    elif isinstance(cache, tuple | CacheStack):
        for part in cache:
            yield from _masks_in(part)


def _inference(backend: Backend) -> list[str]:
    src, tgt = np.array([[3, 4, 2]]), np.array([[1, 5, 4]])
    logits = [Transformer(small_config(dropout=rate), backend=backend)(src, tgt) for rate in (0.0, 0.5)]
    return differ("a logit of a model with dropout, at inference,", logits[1], logits[0])


def _rotation(backend: Backend) -> list[str]:
    table = SinusoidalPositions(backend)(np.zeros((1, 9, 6)))[0]
    points = table[:, 0::2] + 1j * table[:, 1::2]  # each pair of columns, as a point of the plane
    turned = [points[p + 2] / points[p] for p in range(7)]
    problems = differ("the rotation from p = 6 to 8, not as that from 0 to 2,", turned[6], turned[0])
    angles = [2 * 10000 ** (-2 * i / 6) for i in range(3)]
    return problems + differ("its angle", np.abs(np.angle(turned[0])), angles)


CHECKS = of_backend(
    ("huge scores", "softmax and loss stay finite at scores of 1000", _huge),
    ("rows of nothing", "a query that sees no key gets output 0 and gradient 0, not NaN or a mean", _nothing),
    ("hidden keys", "a hidden key has weight 0 and no gradient, and the visible weights still sum to 1", _hidden),
    ("constant tokens", "LayerNorm of a constant row is β, its gradient finite", _constant),
    ("dropout's statistics", "a share p is dropped and the mean stays", _statistics),
    ("dropout's mask", "backward uses mask and scale of its own forward, whatever ran in between", _own_mask),
    ("dropout's places", "no two places of a model draw the same mask", _places),
    ("inference", "without a key nothing is dropped", _inference),
    ("rotation", "PE(p + δ) is PE(p) rotated, by an angle that does not depend on p", _rotation),
)
