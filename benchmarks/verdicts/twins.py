"""Thirty programs as people write them, each right, and once more with a mistake: backwards in places where checks err.

``make(wrong)`` gives a target of gradcheck and its inputs. The mistake is one that a person made, or 1 % of a gradient.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Twin(NamedTuple):
    """A program that is right, and its twin that is not."""

    name: str
    why: str  # what a checker may trip over
    make: Callable[[bool], tuple[Any, tuple[Any, ...]]]
    options: dict[str, Any]
    may: tuple[str, ...] = ("right",)  # what the right one may be called


TWINS: list[Twin] = []


def twin(why, may=("right",), **options):
    """Put a function make(wrong) on the list."""

    def add(make):
        TWINS.append(Twin(make.__name__.replace("_", " "), why, make, options, may))
        return make

    return add


def draw(*shape, seed=0):
    """Normal numbers."""
    return np.random.default_rng(seed).normal(size=shape)


def scaled(pair, wrong, factor=1.01):
    """The pair, if it is to be wrong with every gradient too large."""
    forward, backward = pair

    def larger(dy, cache):
        gradients = backward(dy, cache)
        return tuple(factor * g for g in gradients) if isinstance(gradients, tuple) else factor * gradients

    return (forward, larger) if wrong else pair


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def softmax_slope(dy, p):
    return p * (dy - (dy * p).sum(-1, keepdims=True))


@twin("the backward fails where the length is no multiple of 4", regimes="all", sizes=(7, 8, 31))
def sums_in_blocks(wrong):
    def backward(dy, cache):
        x, w = cache
        parts = np.zeros((max(len(x) // 4 if wrong else -(-len(x) // 4), 1), x.shape[1]))
        for i in range(-(-len(x) // 4)):
            parts[i] = (dy * x)[4 * i : 4 * i + 4].sum(0)
        return dy * w, parts.sum(0)

    return (lambda x, w: (x * w, (x, w)), backward), (draw(8, 3), draw(3, seed=1))


@twin("a reshape for one size alone", sizes=(6, 7))
def heads_taken_apart(wrong):
    def backward(dy, x):
        whole = dy.reshape(-1, 2, 3) if wrong else dy
        return (whole.reshape(dy.shape) * np.cos(x)).copy()

    return (lambda x: (np.sin(x), x), backward), (draw(4, 6),)


@twin("a division by an input that may be 0", regimes=("zeros",))
def square_by_division(wrong):
    def backward(dy, cache):
        x, y = cache
        return 2 * dy * (y / x if wrong else x)

    return (lambda x: (x * x, (x, x * x)), backward), (draw(4, 3),)


@twin("an output that torch marks as without a gradient")
def softmax_with_its_log_sum(wrong):
    import torch

    import npformer as npf

    class Softmax(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            lse = torch.logsumexp(x, -1)
            p = torch.exp(x - lse[:, None])
            ctx.save_for_backward(p)
            ctx.mark_non_differentiable(lse)
            return p, lse

        @staticmethod
        def backward(ctx, dp, _):
            (p,) = ctx.saved_tensors
            return p * (dp - (dp.mean if wrong else (dp * p).sum)(-1, keepdim=True))

    return npf.from_torch(Softmax), (draw(3, 4),)


@twin("an output whose gradient JAX stops")
def sine_and_a_stopped_mean(wrong):
    import jax
    import jax.numpy as jnp

    import npformer as npf

    @jax.custom_vjp
    def sine(x):
        return jnp.sin(x)

    sine.defvjp(lambda x: (jnp.sin(x), x), lambda x, dy: (dy * jnp.cos(x) * (1.01 if wrong else 1),))
    plain = sine if wrong else jnp.sin
    return npf.from_jax(lambda x: (plain(x), jax.lax.stop_gradient(x.mean()))), (draw(3, 4),)


@twin("a number for the log, declared as an output without a gradient", constant="output 1")
def product_and_its_norm(wrong):
    pair = (lambda x, w: ((x @ w, np.sqrt((x * x).sum())), (x, w)), lambda dy, c: (dy[0] @ c[1].T, c[0].T @ dy[0]))
    return scaled(pair, wrong), (draw(4, 3), draw(3, 2, seed=1))


@twin("a row of zeros under an eps of 1e-12")
def normalised_rows(wrong):
    def forward(x):
        n = np.sqrt((x * x).sum(-1, keepdims=True))
        n = np.where(n.real > 1e-12, n, 1e-12)
        return x / n, (x / n, n)

    def backward(dy, cache):
        y, n = cache
        along = (dy * y).sum(-1, keepdims=True) * (n > 1e-12)
        return (dy if wrong else dy - y * along) / n

    x = draw(4, 5)
    x[1] = 0
    return (forward, backward), (x,)


def fixed_point(step, slope, tolerance):
    """x with x = step(x, b), iterated; slope(x, b): the derivatives of step."""

    def forward(b):
        x = 0 * b
        for _ in range(1000):
            before, x = x, step(x, b)
            if np.max(np.abs((x - before).real)) < tolerance:
                break
        return x, (x, b)

    def backward(dy, cache):
        of_x, of_b = slope(*cache)
        return dy * of_b / (1 - of_x)

    return forward, backward


@twin("a fixed point to 1e-9, differentiated implicitly")
def equilibrium(wrong):
    pair = fixed_point(
        lambda x, b: 0.5 * np.tanh(x) + b, lambda x, b: (0.5 * (1 - np.tanh(x) ** 2), np.ones_like(b)), 1e-9
    )
    return scaled(pair, wrong), (draw(6),)


@twin("Newton's square root to 1e-6")
def iterated_root(wrong):
    def forward(a):
        x = 1 + 0 * a
        for _ in range(100):
            before, x = x, (x + a / x) / 2
            if np.max(np.abs((x - before).real)) < 1e-6:
                break
        return x, x

    return scaled((forward, lambda dy, x: dy / (2 * x)), wrong), (1 + draw(5) ** 2,)


@twin("power iteration to 1e-12")
def largest_eigenvalue(wrong):
    def forward(a):
        s = a @ a.T + np.diag(np.arange(1.0, 6.0))
        v = np.ones(5) / np.sqrt(5) + 0 * s[0]
        for _ in range(20_000):
            before, w = v, s @ v
            v = w / np.sqrt((w * w).sum())
            if np.max(np.abs((v - before).real)) < 1e-12:
                break
        return (v * (s @ v)).sum(), (a, v)

    pair = (forward, lambda dy, c: 2 * dy * np.outer(c[1], c[1]) @ c[0])
    return scaled(pair, wrong), (draw(5, 5),)


@twin("a norm whose backward is NaN at a row of zeros", regimes=("zeros",), may=("right", "KINK HERE"))
def norms_of_rows(wrong):
    def backward(dy, cache):
        x, n = cache
        with np.errstate(all="ignore"):
            y = x / n[:, None]
        return dy[:, None] * (y if wrong else np.where(n[:, None] > 0, y, 0))

    return (lambda x: (np.sqrt((x * x).sum(-1)), (x, np.sqrt((x * x).sum(-1)))), backward), (draw(4, 5),)


@twin("an engine that computes in float32")
def tanh_in_float32(wrong):
    def forward(x):
        y = np.tanh(x.astype(np.float32))
        return y, y

    return scaled((forward, lambda dy, y: np.asarray(dy * (1 - y * y), np.float32)), wrong, np.float32(1.01)), (
        draw(4, 3),
    )


@twin("an object that computes in float32")
def layer_in_float32(wrong):
    import npformer as npf

    class Dense:
        def __init__(self):
            self.W = draw(6, 3, seed=1).astype(np.float32)

        def forward(self, x):
            self.x = x.astype(np.float32)
            return self.x @ self.W.astype(np.float32)

        def backward(self, dy):
            dy = np.asarray(dy, np.float32)
            self.dW = self.x.T @ dy
            return (dy @ self.W.T.astype(np.float32)) * np.float32(1.01 if wrong else 1)

    return npf.from_object(Dense()), (draw(4, 6),)


@twin("a custom_vjp inside of jit, given as it is")
def compiled_rule(wrong):
    import jax
    import jax.numpy as jnp

    @jax.custom_vjp
    def square(x):
        return x * x

    square.defvjp(lambda x: (x * x, x), lambda x, dy: (dy * x if wrong else 2 * dy * x,))
    return jax.jit(lambda x: jnp.sum(square(x), -1)), (draw(3, 4),)


@twin("one float32 sum in a float64 softmax")
def softmax_with_a_short_sum(wrong):
    def forward(x):
        e = np.exp(x - x.max(-1, keepdims=True))
        p = e / np.asarray(e.sum(-1, keepdims=True)).astype(np.float32)
        return p, p

    return scaled((forward, softmax_slope), wrong), (draw(4, 6),)


@twin("one float32 mean in float64 code")
def centred_by_a_short_mean(wrong):
    pair = (lambda x: (x - x.mean(-1, keepdims=True).astype(np.float32), None),
            lambda dy, _: dy if wrong else dy - dy.mean(-1, keepdims=True))  # fmt: skip
    return pair, (draw(4, 6),)


@twin("a wave that is finer than the first steps, by a call that the complex step does not survive")
def folded_sine(wrong):
    pair = (lambda x: (np.abs(np.sin(1e4 * x)), x),
            lambda dy, x: dy * 1e4 * np.cos(1e4 * x) * np.sign(np.sin(1e4 * x)))  # fmt: skip
    return scaled(pair, wrong), (draw(4, 3),)


@twin("a sawtooth of 5e-7")
def remainder_of_a_grain(wrong):
    return scaled((lambda x: (np.mod(x, 5e-7), None), lambda dy, _: dy), wrong), (draw(4, 3),)


@twin("three equal entries under a maximum", may=("right", "KINK HERE"))
def largest_of_equals(wrong):
    def backward(dy, x):
        is_largest = x == x.max(-1, keepdims=True)
        return dy[:, None] * (is_largest if wrong else is_largest / is_largest.sum(-1, keepdims=True))

    x = draw(4, 3)
    x[0] = 0.7
    return (lambda x: (x.max(-1), x), backward), (x,)


@twin("indices that are a permutation", regimes="all")
def shuffled_rows(wrong):
    pair = (lambda x, order: (x[order], order), lambda dy, order: dy[order] if wrong else dy[np.argsort(order)])
    return pair, (draw(6, 4), np.array([3, 1, 0, 2, 5, 4]))


@twin("a forward that refuses what lies outside of its domain")
def cross_entropy_of_probabilities(wrong):
    target = np.array([0.0, 1.0, 1.0, 0.0])

    def forward(p):
        if np.any((p.real < 0) | (p.real > 1)):
            raise RuntimeError("expected probabilities")
        return -(target * np.log(p) + (1 - target) * np.log(1 - p)), p

    return scaled((forward, lambda dy, p: dy * (p - target) / (p * (1 - p))), wrong), (
        np.array([0.3, 0.9995, 0.4, 5e-4]),
    )


@twin("a factorisation near the edge of its domain", structure="symmetric")
def log_determinant(wrong):
    q = np.linalg.qr(draw(4, 4))[0]
    a = q @ np.diag([1e-4, 1.0, 2.0, 3.0]) @ q.T
    pair = (lambda a: (2 * np.log(np.diagonal(np.linalg.cholesky(a))).sum(), a), lambda dy, a: dy * np.linalg.inv(a))
    return scaled(pair, wrong), ((a + a.T) / 2,)


@twin("an output of booleans beside the numbers")
def relu_and_its_mask(wrong):
    pair = (lambda x: ((np.maximum(x, 0), x > 0), x), lambda dy, x: dy[0] * (x > 0))
    return scaled(pair, wrong), (draw(4, 3),)


@twin("an input whose bytes are in the other order")
def product_of_big_endians(wrong):
    pair = (lambda x, w: (x * w, (x, w)), lambda dy, c: (dy * c[1], dy * c[0] * (1.01 if wrong else 1)))
    return pair, (draw(4, 3), draw(4, 3, seed=1).astype(">f8"))


@twin("a mask of −inf that is added")
def masked_softmax(wrong):
    mask = np.where(draw(4, 6, seed=1) > 0.8, -np.inf, 0.0)

    def forward(scores, mask):
        p = softmax(scores + mask)
        return p, p

    return scaled((forward, lambda dy, p: (softmax_slope(dy, p),) * 2), wrong), (draw(4, 6), mask)


@twin("many kinks, and none at the point")
def relu_of_many(wrong):
    def backward(dy, x):
        slope = np.where(x > 0, 1.0, 0.0)
        slope[77] += 0.05 if wrong else 0
        return dy * slope

    return (lambda x: ((x + np.abs(x)) / 2, x), backward), (draw(1500, seed=5),)


@twin("numbers of 1e14")
def squares_of_large_numbers(wrong):
    return scaled((lambda x: (x * x, x), lambda dy, x: 2 * dy * x), wrong), (1e14 * draw(3, 4),)


@twin("an upstream gradient that is cut off")
def clipped_upstream(wrong):
    return (lambda x: (x * x, x), lambda dy, x: 2 * x * (np.clip(dy, -10, 10) if wrong else dy)), (draw(4, 3),)


@twin("ids that 8 bits cannot hold", sizes=(31, 129, 300))
def looked_up(wrong):
    def backward(dy, cache):
        (rows, columns), ids = cache
        dtable = np.zeros((rows, columns))
        np.add.at(dtable, ids.astype(np.int8) if wrong else ids, dy)
        return dtable

    return (lambda table, ids: (table[ids], (table.shape, ids)), backward), (draw(6, 4), np.array([0, 5, 2, 3, 3]))


@twin("an exp that overflows in the backward alone", regimes=("saturated above",))
def softplus(wrong):
    def backward(dy, x):
        e = np.exp(x if wrong else -np.abs(x))
        return dy * (e / (1 + e) if wrong else np.where(x > 0, 1, e) / (1 + e))

    return (lambda x: (np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0), x), backward), (draw(4, 3),)
