"""Optimisers compared with a textbook loop over tensors, schedules with their formulas; clipping."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from npformer.backend import Arena, Backend
from npformer.lab.museum.checks.check import differ, normal, of_backend
from npformer.layers import Parameter
from npformer.optim import Adam, AdamW, Noam, WarmupCosine, clip_by_global_norm

SHAPES = {"a.weight": (3, 4), "a.bias": (4,), "b.weight": (4, 2), "b.bias": (2,)}
LR, BETA1, BETA2, EPS = 0.01, 0.9, 0.98, 1e-3  # a large ε, so that an ε inside the root is noticed


def _arena(backend: Backend) -> tuple[Arena, dict[str, Any]]:
    parameters = {name: Parameter(name, normal(i, *shape)) for i, (name, shape) in enumerate(SHAPES.items())}
    arena = Arena([(name, p, ()) for name, p in parameters.items()], backend)
    return arena, parameters


def _textbook(backend: Backend, decay: float) -> list[str]:
    arena, parameters = _arena(backend)
    usual = arena, LR, (BETA1, BETA2), EPS
    optimizer = AdamW(*usual, decay) if decay else Adam(*usual)
    expected = {
        name: (np.array(p.data), np.zeros(p.data.shape), np.zeros(p.data.shape)) for name, p in parameters.items()
    }
    for t in range(1, 11):
        for i, (name, p) in enumerate(parameters.items()):
            g = 3.0 ** (t % 3 - 1) * normal(100 * t + i, *p.data.shape)
            p.grad[...] = g
            w, m, v = expected[name]
            m = BETA1 * m + (1 - BETA1) * g
            v = BETA2 * v + (1 - BETA2) * g**2
            w = w - LR * decay * w * (g.ndim == 2)
            w = w - LR * (m / (1 - BETA1**t)) / (np.sqrt(v / (1 - BETA2**t)) + EPS)
            expected[name] = w, m, v
        optimizer.step()
        for name, p in parameters.items():
            problems = differ(f"{name} after step {t}", p.data, expected[name][0], tolerance=1e-11)
            if problems:
                return problems
    return []


def _schedules(backend: Backend) -> list[str]:
    noam, cosine = Noam(64, 10, 2.0), WarmupCosine(0.5, 4, 20, floor=0.1)
    problems = []
    for t in range(1, 25):
        expected = 2.0 / 8 * (t / 10**1.5 if t < 10 else 1 / math.sqrt(t))
        problems += differ(f"Noam at step {t}", noam(t), expected)
        down = 0.1 + 0.2 * (1 + math.cos(math.pi * min(1.0, (t - 4) / 16)))
        problems += differ(f"cosine at step {t}", cosine(t), 0.5 * t / 4 if t <= 4 else down)
    return problems


def _clipping(backend: Backend) -> list[str]:
    problems = []
    for size in (10.0, 0.01):
        arena, parameters = _arena(backend)
        sizes = {name: size * (i + 1) for i, name in enumerate(parameters)}
        gradients = {name: scale * normal(50, *SHAPES[name]) for name, scale in sizes.items()}
        for name, p in parameters.items():
            p.grad[...] = gradients[name]
        length = math.sqrt(sum(float(np.sum(g**2)) for g in gradients.values()))
        problems += differ("the norm", clip_by_global_norm(arena, 1.5), length)
        for name, p in parameters.items():
            problems += differ(f"the clipped gradient of {name}", p.grad, gradients[name] * min(1.0, 1.5 / length))
    return problems


CHECKS = of_backend(
    ("Adam by the textbook", "ten steps are those of algorithm 1, tensor by tensor", partial(_textbook, decay=0.0)),
    ("AdamW by the textbook", "decay apart from the gradient, only on matrices", partial(_textbook, decay=0.1)),
    ("schedules", "Noam and warm-up with cosine are their formulas", _schedules),
    ("clipping", "one factor for all gradients, from their common length, and none if they are short", _clipping),
)
