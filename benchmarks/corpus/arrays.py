"""Inputs by their seeds, for pairs of the corpus."""

import numpy as np


def normal(seed, *shape):
    """Standard normal numbers."""
    return np.random.default_rng(seed).normal(size=shape)


def normals(seed, *shapes):
    """An array of such numbers for each shape, with seeds from this one on."""
    return tuple(normal(seed + i, *shape) for i, shape in enumerate(shapes))


def positive(seed, *shape):
    """Random numbers between 0.5 and 2."""
    return np.random.default_rng(seed).uniform(0.5, 2.0, size=shape)


def within(seed, most, *shape):
    """Random numbers between −most and most."""
    return np.random.default_rng(seed).uniform(-most, most, size=shape)


def apart(seed, *shape, gap=0.3):
    """Random numbers in random order, any two at least ``gap`` apart and none nearer to 0 than half of it: no ties."""
    rng = np.random.default_rng(seed)
    count = int(np.prod(shape))
    steps = np.cumsum(gap + 0.1 * rng.random(count))
    below = count // 2
    return rng.permutation(steps - (steps[below] + steps[below - 1]) / 2).reshape(shape)


def single(*arrays):
    """The arrays in float32."""
    return tuple(x.astype(np.float32) for x in arrays)


def softmax(x):
    """Over the last axis, for forwards that need one."""
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)
