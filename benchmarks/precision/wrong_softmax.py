"""Wrong gradients of softmaxes, logsumexps, cross-entropies and of a sigmoid's loss."""

import numpy as np

from benchmarks.precision import references as of
from benchmarks.precision.draws import between, classified, normal
from benchmarks.precision.kernel import bfloat16, float16, float32, wrong
from benchmarks.precision.right_softmax import (
    BLOCK,
    half_forward,
    inside_forward,
    kept_forward,
    log_forward,
    logsumexp_forward,
    loss_forward,
    online_forward,
    rows,
    statistics,
)


def inside_without_row_sum(dy, x):
    return bfloat16(dy * rows(x))


def kept_without_row_sum(dy, p):
    return bfloat16(dy * p)


def row_mean_for_row_sum(dy, p):
    return p * (dy - float16(float32(p * dy).mean(-1, keepdims=True)))


def last_block_not_summed(dy, cache):
    x, top, total = cache
    inner = np.zeros_like(top)
    for start in range(0, x.shape[-1] - BLOCK, BLOCK):
        part = slice(start, start + BLOCK)
        inner = inner + (np.exp(x[:, part] - top) / total * dy[:, part]).sum(-1, keepdims=True)
    return np.exp(x - top) / total * (dy - inner)


def without_sum_of_dy(dy, y):
    return bfloat16(dy - np.exp(y) * dy)


def first_block_by_its_own_maximum(dy, cache):
    x, _ = cache
    top, total = statistics(x)
    tops = np.repeat(top, x.shape[-1], axis=1)
    tops[:, :BLOCK] = x[:, :BLOCK].max(-1, keepdims=True)
    return np.exp(x - tops) / total * dy[:, None]


def half_loss_forward(x, classes):
    """float16 with float32 inside."""
    y, cache = loss_forward(float32(x), classes)
    return float16(y), cache


def upstream_as_1(dy, cache):
    x, classes, log_sum = cache
    dx = np.exp(x - log_sum[:, None])
    dx[np.arange(len(x)), classes] -= 1
    return float16(dx / len(x))


def classes_of_the_first_block_alone(dy, cache):
    x, classes, log_sum = cache
    dx = np.exp(x - log_sum[:, None])
    for token, index in enumerate(classes):
        if index < 512:
            dx[token, index] -= 1
    return dx * (dy / len(x))


def softplus_forward(x):
    """The loss of a sigmoid whose class is 1; the probability is kept in bfloat16."""
    return bfloat16(np.log1p(np.exp(-x))), bfloat16(1 / (1 + np.exp(-x)))


def probability_less_1(dy, p):
    return bfloat16(dy * (p - 1))


def half_tanh_forward(x):
    t = np.tanh(x)
    return t, t


def one_less_square(dy, t):
    return dy * (1 - t * t)


KERNELS = (
    wrong(
        "softmax, bfloat16 with float32 inside, 4×64, no row sum",
        "bfloat16", (inside_forward, inside_without_row_sum), of.softmax, normal((4, 64)),
        "the row sum of p·dy is missing",
    ),
    wrong(
        "softmax, bfloat16, probabilities kept, 4×2048, no row sum",
        "bfloat16", (kept_forward, kept_without_row_sum), of.softmax, normal((4, 2048)),
        "the row sum of p·dy is missing",
    ),
    wrong(
        "softmax, float16, a mean for the row sum",
        "float16", (half_forward, row_mean_for_row_sum), of.softmax, normal((3, 20)),
        "the row sum of p·dy is divided by the row's length",
    ),
    wrong(
        "online softmax, float32, last block not summed",
        "float32", (online_forward, last_block_not_summed), of.softmax, normal((4, 256)),
        "the last block is missing in the row sum of p·dy",
    ),
    wrong(
        "log-softmax, bfloat16, dy not summed",
        "bfloat16", (log_forward, without_sum_of_dy), of.log_softmax, normal((4, 64)),
        "p·dy for p times the row sum of dy",
    ),
    wrong(
        "logsumexp in blocks, float32, an old maximum",
        "float32", (logsumexp_forward, first_block_by_its_own_maximum), of.logsumexp, normal((6, 256)),
        "the first block's exponentials are not rescaled to the row's maximum",
    ),
    wrong(
        "cross-entropy, float16, upstream ignored",
        "float16", (half_loss_forward, upstream_as_1), of.cross_entropy, classified(8, 50),
        "dy is taken as 1",
    ),
    wrong(
        "cross-entropy in blocks, float32, classes beyond a block",
        "float32", (loss_forward, classes_of_the_first_block_alone), of.cross_entropy, classified(12, 1000),
        "the −1 at a token's class is missing beyond 512 classes",
    ),
    wrong(
        "sigmoid's loss, bfloat16, where it is confident",
        "bfloat16", (softplus_forward, probability_less_1), of.softplus, between(7, 9, 4, 16),
        "1 is taken from a probability that was rounded to 1",
    ),
    wrong(
        "tanh, float16, where it is saturated",
        "float16", (half_tanh_forward, one_less_square), of.saturated_tanh, between(4.6, 5.2, 4, 16),
        "the square of a number that was rounded to 1 is taken from 1",
    ),
)  # fmt: skip
