"""Wrong gradients of softmaxes, logsumexps, cross-entropies and of a sigmoid's loss."""

import numpy as np

from benchmarks.precision import references as of
from benchmarks.precision.draws import between, classified, normal
from benchmarks.precision.kernel import bfloat16, edited, float16, float32, wrong
from benchmarks.precision.right_softmax import (
    BLOCK,
    half_backward,
    half_forward,
    inside_backward,
    inside_forward,
    kept_backward,
    kept_forward,
    log_backward,
    log_forward,
    logsumexp_forward,
    loss_backward,
    loss_forward,
    online_backward,
    online_forward,
    statistics,
)


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


def softplus_forward(x):
    """The loss of a sigmoid whose class is 1; the probability is kept in bfloat16."""
    return bfloat16(np.log1p(np.exp(-x))), bfloat16(1 / (1 + np.exp(-x)))


def probability_less_1(dy, p):
    return bfloat16(dy * (p - 1))


KERNELS = (
    wrong(
        "softmax, bfloat16 with float32 inside, 4×64, no row sum",
        "bfloat16", (inside_forward, edited(inside_backward, " - (p * dy).sum(-1, keepdims=True)", "")),
        of.softmax, normal((4, 64)),
        "the row sum of p·dy is missing",
    ),
    wrong(
        "softmax, bfloat16, probabilities kept, 4×2048, no row sum",
        "bfloat16", (kept_forward, edited(kept_backward, " - (p * dy).sum(-1, keepdims=True)", "")),
        of.softmax, normal((4, 2048)),
        "the row sum of p·dy is missing",
    ),
    wrong(
        "softmax, float16, a mean for the row sum",
        "float16", (half_forward, edited(half_backward, ".sum(", ".mean(")), of.softmax, normal((3, 20)),
        "the row sum of p·dy is divided by the row's length",
    ),
    wrong(
        "online softmax, float32, last block not summed",
        "float32", (online_forward, edited(online_backward, "x.shape[-1]", "x.shape[-1] - BLOCK")),
        of.softmax, normal((4, 256)),
        "the last block is missing in the row sum of p·dy",
    ),
    wrong(
        "log-softmax, bfloat16, dy not summed",
        "bfloat16", (log_forward, edited(log_backward, ".sum(-1, keepdims=True)", "")), of.log_softmax, normal((4, 64)),
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
        "float32", (loss_forward, edited(loss_backward, "-= 1", "-= classes < 512")),
        of.cross_entropy, classified(12, 1000),
        "the −1 at a token's class is missing beyond 512 classes",
    ),
    wrong(
        "sigmoid's loss, bfloat16, where it is confident",
        "bfloat16", (softplus_forward, probability_less_1), of.softplus, between(7, 9, 4, 16),
        "1 is taken from a probability that was rounded to 1",
    ),
    wrong(
        "tanh, float16, where it is saturated",
        "float16", of.tanh, of.saturated_tanh, between(4.6, 5.2, 4, 16),
        "the square of a number that was rounded to 1 is taken from 1",
    ),
)  # fmt: skip
