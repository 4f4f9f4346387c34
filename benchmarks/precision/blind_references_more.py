"""More of what the kernels of blind.py should compute: activations, losses, norms and products."""

import numpy as np

from benchmarks.precision.blind_references import sigmoid, softmax


def snake(x, alpha):
    """x + sin²(alpha x) / alpha, one alpha for each channel."""
    s = np.sin(alpha * x)
    return x + s * s / alpha, (x, alpha)


def snake_backward(dy, cache):
    x, alpha = cache
    s, double = np.sin(alpha * x), np.sin(2 * alpha * x)
    return dy * (1 + double), (dy * (x * double / alpha - s * s / alpha**2)).sum(axis=0)


def weighted_nll(weights):
    """Cross-entropy whose classes have weights, over the sum of the weights of the labels, as PyTorch's mean."""

    def forward(logits, labels):
        p, w = softmax(logits), weights[labels]
        return -(w * np.log(p[np.arange(len(labels)), labels])).sum() / w.sum(), (p, labels, w)

    def backward(dy, cache):
        p, labels, w = cache
        return (dy * (w / w.sum())[:, None] * (p - np.eye(p.shape[1])[labels]),)

    return forward, backward


def soft_gate(x, s):
    """Channels of x (N, C), each multiplied by softplus(s)."""
    return x * np.log(1 + np.exp(s)), (x, s)


def soft_gate_backward(dy, cache):
    x, s = cache
    return dy * np.log(1 + np.exp(s)), (dy * x).sum(axis=0) * sigmoid(s)


def rotary(base):
    """Neighbouring channels of x (T, D) are turned by position * base^(-2i/D)."""

    def angles(x):
        half = x.shape[1] // 2
        return np.arange(len(x))[:, None] * base ** (-np.arange(half) / half)

    def forward(x):
        t, y = angles(x), 0 * x
        y[:, ::2] = x[:, ::2] * np.cos(t) - x[:, 1::2] * np.sin(t)
        y[:, 1::2] = x[:, ::2] * np.sin(t) + x[:, 1::2] * np.cos(t)
        return y, t

    def backward(dy, t):
        dx = 0 * dy
        dx[:, ::2] = dy[:, ::2] * np.cos(t) + dy[:, 1::2] * np.sin(t)
        dx[:, 1::2] = dy[:, 1::2] * np.cos(t) - dy[:, ::2] * np.sin(t)
        return (dx,)

    return forward, backward


def selu(x):
    scale, alpha = 1.0507009873554805, 1.6732632423543772
    positive = x.real > 0
    below = scale * alpha * np.exp(np.where(positive, 0, x))
    return np.where(positive, scale * x, below - scale * alpha), np.where(positive, scale, below)


def selu_backward(dy, slope):
    return (dy * slope,)


def unit(eps):
    """Rows of x over their length plus eps."""

    def forward(x):
        n = np.sqrt((x * x).sum(axis=-1, keepdims=True))
        return x / (n + eps), (x, n)

    def backward(dy, cache):
        x, n = cache
        along = (dy * x).sum(axis=-1, keepdims=True)
        return (dy / (n + eps) - x * along / (n * (n + eps) ** 2),)

    return forward, backward


def scale_norm(x, g):
    """Rows of x (N, D) brought to the length sqrt(D) g, with one number g."""
    n = np.sqrt((x * x).sum(axis=-1, keepdims=True) / x.shape[-1])
    return g * x / n, (x / n, n, g)


def scale_norm_backward(dy, cache):
    hat, n, g = cache
    dx = g / n * (dy - hat * (dy * hat).mean(axis=-1, keepdims=True))
    return dx, (dy * hat).sum().reshape(1)


def dice(smooth):
    """One minus the soft overlap of sigmoid(x) and a mask of zeros and ones, for each row."""

    def forward(x, mask):
        p = sigmoid(x)
        above, total = 2 * (p * mask).sum(axis=1) + smooth, (p + mask).sum(axis=1) + smooth
        return 1 - above / total, (p, mask, above, total)

    def backward(dy, cache):
        p, mask, above, total = cache
        return ((dy / total)[:, None] * ((above / total)[:, None] - 2 * mask) * p * (1 - p),)

    return forward, backward


def retention(decay):
    """(scores ∘ decay) v with scores q kᵀ / sqrt(D): an attention without a softmax."""

    def forward(q, k, v):
        s = q @ k.T / np.sqrt(q.shape[1]) * decay
        return s @ v, (q, k, v, s)

    def backward(dy, cache):
        q, k, v, s = cache
        ds = dy @ v.T * decay / np.sqrt(q.shape[1])
        return ds @ k, ds.T @ q, s.T @ dy

    return forward, backward


def lora(x, w, a, b):
    """x w + 16/12 x a b: a product and its correction of low rank."""
    down = x @ a
    return x @ w + 16 / 12 * (down @ b), (x, w, a, b, down)


def lora_backward(dy, cache):
    x, w, a, b, down = cache
    ddown = 16 / 12 * (dy @ b.T)
    return dy @ w.T + ddown @ a.T, x.T @ dy, x.T @ ddown, 16 / 12 * (down.T @ dy)


def pseudo_huber(x, target):
    """The sum over a row of sqrt(1 + (x - target)²) - 1."""
    r = x - target
    root = np.sqrt(1 + r * r)
    return (root - 1).sum(axis=1), (r, root)


def pseudo_huber_backward(dy, cache):
    r, root = cache
    g = dy[:, None] * r / root
    return g, -g


def z_loss(weight):
    """Cross-entropy plus weight * (log of the sum of exponentials)², for each row. labels: one-hot rows, integers."""

    def forward(logits, labels):
        lse = np.log(np.exp(logits).sum(axis=1))
        return lse - (logits * labels).sum(axis=1) + weight * lse * lse, (softmax(logits), labels, lse)

    def backward(dy, cache):
        p, labels, lse = cache
        return (dy[:, None] * (p * (1 + 2 * weight * lse)[:, None] - labels),)

    return forward, backward


def channel_gate(x, w):
    """x (B, C, 7, 7), each channel times sigmoid(pooled @ w), with the means over the positions pooled."""
    pooled = x.mean(axis=(2, 3))
    gate = sigmoid(pooled @ w)
    return x * gate[..., None, None], (x, w, pooled, gate)


def channel_gate_backward(dy, cache):
    x, w, pooled, gate = cache
    da = (dy * x).sum(axis=(2, 3)) * gate * (1 - gate)
    dx = dy * gate[..., None, None] + (da @ w.T / 49)[..., None, None]
    return dx, pooled.T @ da
