"""What inputs are drawn from: normal numbers at a scale and an offset, gains near 1, and a few shapes more."""

import numpy as np


def normal(*shapes, scale=1.0, offset=0.0):
    """draw(rng): one normal array for each shape."""

    def draw(rng):
        return tuple(offset + scale * rng.normal(size=shape) for shape in shapes)

    return draw


def normed(rows, width, scale=1.0, offset=0.0, bias=True):
    """draw(rng): x (rows, width), a gain near 1 and, for a LayerNorm, a bias."""

    def draw(rng):
        x = offset + scale * rng.normal(size=(rows, width))
        gain = 1 + 0.2 * rng.normal(size=width)
        return (x, gain, 0.5 * rng.normal(size=width)) if bias else (x, gain)

    return draw


def weighted(tokens, width, out, bias=True):
    """draw(rng): x (tokens, width), W (width, out) of variance 1/width and a bias."""

    def draw(rng):
        x, w = rng.normal(size=(tokens, width)), rng.normal(size=(width, out)) / width**0.5
        return (x, w, 0.5 * rng.normal(size=out)) if bias else (x, w)

    return draw


def classified(tokens, classes, scale=1.0):
    """draw(rng): scores (tokens, classes) and the index of each token's class."""

    def draw(rng):
        return scale * rng.normal(size=(tokens, classes)), rng.integers(0, classes, size=tokens)

    return draw


def looked_up(words, width, tokens):
    """draw(rng): a table (words, width) and the words of tokens, some of them repeated."""

    def draw(rng):
        ids = rng.integers(0, words, size=tokens)
        ids[-1] = ids[0]
        return rng.normal(size=(words, width)), ids

    return draw


def with_a_maximum(rows, width):
    """draw(rng): rows in which one entry is largest by 1."""

    def draw(rng):
        x = rng.normal(size=(rows, width))
        x[np.arange(rows), rng.integers(0, width, size=rows)] = x.max(-1) + 1
        return (x,)

    return draw


def away_from_0(*shape):
    """draw(rng): one array of numbers of both signs, none nearer to 0 than 0.3."""

    def draw(rng):
        x = rng.normal(size=shape)
        return (x + 0.3 * np.sign(x),)

    return draw


def between(low, high, *shape):
    """draw(rng): one array, uniform between low and high."""
    return lambda rng: (rng.uniform(low, high, size=shape),)


def headed(*lead, tokens, width, scale=1.0):
    """draw(rng): q, k and v (…, tokens, width)."""
    return normal(*3 * [(*lead, tokens, width)], scale=scale)


def causal(tokens, width):
    """draw(rng): q, k, v (tokens, width) and the mask that hides what comes later; True is visible."""

    def draw(rng):
        return (*rng.normal(size=(3, tokens, width)), np.tril(np.ones((tokens, tokens), dtype=bool)))

    return draw
