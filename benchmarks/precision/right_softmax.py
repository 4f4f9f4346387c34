"""Right softmaxes, logsumexps and cross-entropies in NumPy."""

import numpy as np

from benchmarks.precision import references as of
from benchmarks.precision.draws import classified, normal
from benchmarks.precision.kernel import bfloat16, float16, float32, right

BLOCK = 64


def statistics(x):
    """Each row's maximum and its sum of exponentials, in one pass over blocks of columns."""
    top = x[:, :1]
    total = np.zeros_like(top)
    for start in range(0, x.shape[-1], BLOCK):
        block = x[:, start : start + BLOCK]
        higher = np.maximum(top, block.max(-1, keepdims=True))
        total = total * np.exp(top - higher) + np.exp(block - higher).sum(-1, keepdims=True)
        top = higher
    return top, total


def online_forward(x):
    top, total = statistics(x)
    return np.exp(x - top) / total, (x, top, total)


def online_backward(dy, cache):
    x, top, total = cache
    inner = np.zeros_like(top)
    for start in range(0, x.shape[-1], BLOCK):
        part = slice(start, start + BLOCK)
        inner = inner + (np.exp(x[:, part] - top) / total * dy[:, part]).sum(-1, keepdims=True)
    return np.exp(x - top) / total * (dy - inner)


def rows(x):
    """The softmax of each row."""
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def inside_forward(x):
    return bfloat16(rows(x)), x


def inside_backward(dy, x):
    p = rows(x)
    return bfloat16(p * (dy - (p * dy).sum(-1, keepdims=True)))


def kept_forward(x):
    p = bfloat16(rows(x))
    return p, p


def kept_backward(dy, p):
    return bfloat16(p * (dy - (p * dy).sum(-1, keepdims=True)))


def rounded_forward(x):
    e = bfloat16(np.exp(bfloat16(x - x.max(-1, keepdims=True))))
    p = bfloat16(e / bfloat16(e.sum(-1, keepdims=True)))
    return p, p


def rounded_backward(dy, p):
    inner = bfloat16(bfloat16(p * dy).sum(-1, keepdims=True))
    return bfloat16(p * bfloat16(dy - inner))


def half_forward(x):
    """float16 throughout, but for the sums."""
    e = np.exp(x - x.max(-1, keepdims=True))
    p = e / float16(float32(e).sum(-1, keepdims=True))
    return p, p


def half_backward(dy, p):
    return p * (dy - float16(float32(p * dy).sum(-1, keepdims=True)))


def log_forward(x):
    z = x - x.max(-1, keepdims=True)
    y = bfloat16(z - np.log(np.exp(z).sum(-1, keepdims=True)))
    return y, y


def log_backward(dy, y):
    return bfloat16(dy - np.exp(y) * dy.sum(-1, keepdims=True))


def logsumexp_forward(x):
    top, total = statistics(x)
    y = top + np.log(total)
    return y[:, 0], (x, y)


def logsumexp_backward(dy, cache):
    x, y = cache
    return np.exp(x - y) * dy[:, None]


def loss_forward(x, classes):
    """The mean over tokens; only the logarithm of each row's sum is kept."""
    top, total = statistics(x)
    log_sum = (top + np.log(total))[:, 0]
    tokens = np.arange(len(x))
    return (log_sum - x[tokens, classes]).mean(), (x, classes, log_sum)


def loss_backward(dy, cache):
    x, classes, log_sum = cache
    dx = np.exp(x - log_sum[:, None])
    dx[np.arange(len(x)), classes] -= 1
    return dx * (dy / len(x))


def bfloat16_loss_forward(x, classes):
    y, cache = loss_forward(x, classes)
    return bfloat16(y), cache


def bfloat16_loss_backward(dy, cache):
    return bfloat16(loss_backward(dy, cache))


KERNELS = (
    right(
        "online softmax, float32, 4×512",
        "float32", (online_forward, online_backward), of.softmax, normal((4, 512), scale=3),
    ),
    right(
        "softmax, bfloat16 with float32 inside, 4×512",
        "bfloat16", (inside_forward, inside_backward), of.softmax, normal((4, 512)),
    ),
    right(
        "softmax, bfloat16, probabilities kept in bfloat16",
        "bfloat16", (kept_forward, kept_backward), of.softmax, normal((4, 64)),
    ),
    right(
        "softmax, bfloat16, rounded after every operation",
        "bfloat16", (rounded_forward, rounded_backward), of.softmax, normal((2, 4)),
    ),
    right("softmax, float16 with float32 sums", "float16", (half_forward, half_backward), of.softmax, normal((3, 20))),
    right(
        "log-softmax, bfloat16, its output kept",
        "bfloat16", (log_forward, log_backward), of.log_softmax, normal((4, 64)),
    ),
    right(
        "logsumexp in blocks, float32, 2×4096",
        "float32", (logsumexp_forward, logsumexp_backward), of.logsumexp, normal((2, 4096), offset=8),
    ),
    right(
        "cross-entropy in blocks, float32, 6×1000",
        "float32", (loss_forward, loss_backward), of.cross_entropy, classified(6, 1000, scale=2),
    ),
    right(
        "cross-entropy, bfloat16 with float32 inside, 4×2000",
        "bfloat16", (bfloat16_loss_forward, bfloat16_loss_backward), of.cross_entropy, classified(4, 2000),
    ),
)  # fmt: skip
