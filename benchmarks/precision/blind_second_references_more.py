"""What the other kernels of blind_second.py should compute, in operations that run in float64 and complex128."""

import numpy as np

from benchmarks.precision.blind_references import sigmoid, softmax


def mixed(s, v):
    """Σ_e softmax(s)_e v_e: scores (B, E) of experts, their answers (B, E, D)."""
    p = softmax(s)
    return (p[..., None] * v).sum(axis=1), (p, v)


def mixed_backward(dy, cache):
    p, v = cache
    dp = (dy[:, None] * v).sum(axis=-1)
    return p * (dp - (p * dp).sum(axis=1, keepdims=True)), p[..., None] * dy[:, None]


def log_cosh(x):
    """The sum over a row of log cosh x."""
    return np.log((np.exp(x) + np.exp(-x)) / 2).sum(axis=1), x


def log_cosh_backward(dy, x):
    return (dy[:, None] * np.tanh(x),)


def deviation(x):
    """The standard deviation of each column of x (T, C)."""
    centred = x - x.mean(axis=0)
    y = np.sqrt((centred * centred).mean(axis=0))
    return y, (centred, y)


def deviation_backward(dy, cache):
    centred, y = cache
    return (dy * centred / (y * len(centred)),)


def binned(half):
    """log(σ(x + half) - σ(x - half)): a logistic variable's chance of a bin."""

    def forward(x):
        return np.log(1 - np.exp(-2 * half)) - np.log((1 + np.exp(-x - half)) * (1 + np.exp(x - half))), x

    def backward(dy, x):
        return (dy * (1 - sigmoid(x + half) - sigmoid(x - half)),)

    return forward, backward


def pearson(x, z):
    """The correlation of each row of x (B, N) with the same row of z."""
    a, b = x - x.mean(axis=1, keepdims=True), z - z.mean(axis=1, keepdims=True)
    na, nb = np.sqrt((a * a).sum(axis=1, keepdims=True)), np.sqrt((b * b).sum(axis=1, keepdims=True))
    return (a / na * b / nb).sum(axis=1), (a / na, b / nb, na, nb)


def pearson_backward(dy, cache):
    u, v, na, nb = cache
    r, g = (u * v).sum(axis=1, keepdims=True), dy[:, None]
    return g * (v - r * u) / na, g * (u - r * v) / nb


def contrastive(x, z, t):
    """The loss of pairs (x_n, z_n) among all x and z (N, D), by rows and by columns, at the scale exp(t)."""
    scores = x @ z.T * np.exp(t)
    p, q = softmax(scores), softmax(scores.T).T
    here = np.arange(len(x))
    return -(np.log(p[here, here]) + np.log(q[here, here])).sum() / (2 * len(x)), (x, z, t, scores, p, q)


def contrastive_backward(dy, cache):
    x, z, t, scores, p, q = cache
    ds = dy / (2 * len(x)) * (p + q - 2 * np.eye(len(x)))
    return ds @ z * np.exp(t), ds.T @ x * np.exp(t), (ds * scores).sum().reshape(1)


def reflected(x, w):
    """A convolution over three steps of x (B, T, C) with w (3, C, O), its two ends mirrored."""
    padded = np.concatenate([x[:, 1:2], x, x[:, -2:-1]], axis=1)
    return sum(padded[:, k : k + x.shape[1]] @ w[k] for k in range(3)), (padded, w)


def reflected_backward(dy, cache):
    padded, w = cache
    steps, dpadded = dy.shape[1], 0 * padded
    for k in range(3):
        dpadded[:, k : k + steps] += dy @ w[k].T
    dx = dpadded[:, 1:-1].copy()
    dx[:, 1] += dpadded[:, 0]
    dx[:, -2] += dpadded[:, -1]
    return dx, np.stack([np.einsum("btc,bto->co", padded[:, k : k + steps], dy) for k in range(3)])


def capped_loss(cap):
    """Cross-entropy of the logits cap tanh(x / cap), for each row."""

    def forward(x, labels):
        t = np.tanh(x / cap)
        p = softmax(cap * t)
        return -np.log(p[np.arange(len(x)), labels]), (t, p, labels)

    def backward(dy, cache):
        t, p, labels = cache
        return (dy[:, None] * (p - np.eye(p.shape[1])[labels]) * (1 - t * t),)

    return forward, backward


def delta_rule(s, k, v, beta):
    """s + beta (v - s k) kᵀ: one step of a memory s (V, K) towards the value v at the key k."""
    u = v - s @ k
    return s + beta * u[:, None] * k, (s, k, u, beta)


def delta_rule_backward(dy, cache):
    s, k, u, beta = cache
    du = beta * (dy @ k)
    return dy - du[:, None] * k, beta * (dy.T @ u) - s.T @ du, du, (u @ (dy @ k)).reshape(1)


def turned(q, v):
    """Vectors v (N, 3), each turned by its quaternion q (N, 4), which may have any length."""
    n = np.sqrt((q * q).sum(axis=1, keepdims=True))
    unit = q / n
    w, r = unit[:, :1], unit[:, 1:]
    c = np.cross(r, v)
    return v + 2 * w * c + 2 * np.cross(r, c), (n, unit, v, c)


def turned_backward(dy, cache):
    n, unit, v, c = cache
    w, r = unit[:, :1], unit[:, 1:]
    dc = 2 * w * dy + 2 * np.cross(dy, r)
    dunit = np.hstack([2 * (dy * c).sum(axis=1, keepdims=True), 2 * np.cross(c, dy) + np.cross(v, dc)])
    return (dunit - unit * (unit * dunit).sum(axis=1, keepdims=True)) / n, dy + np.cross(dc, r)


def raised_cosine(x):
    return (1 + np.cos(np.pi * x)) / 2, x


def raised_cosine_backward(dy, x):
    return (-dy * np.pi / 2 * np.sin(np.pi * x),)


def bell(x):
    """exp(-|x|²/2) of each row."""
    y = np.exp(-(x * x).sum(axis=1) / 2)
    return y, (x, y)


def bell_backward(dy, cache):
    x, y = cache
    return (-(dy * y)[:, None] * x,)


def leaky(x):
    """y_t = y_{t-1} / 2 + x_t along axis 0."""
    return np.stack([sum(x[s] * 0.5 ** (t - s) for s in range(t + 1)) for t in range(len(x))]), None


def leaky_backward(dy, _):
    steps = len(dy)
    return (np.stack([sum(dy[s] * 0.5 ** (s - t) for s in range(t, steps)) for t in range(steps)]),)


def masked_error(x, target, mask):
    """The mean of (x - target)² where mask is 1."""
    d = (x - target) * mask
    return (d * d).sum() / mask.sum(), (d, mask.sum())


def masked_error_backward(dy, cache):
    d, count = cache
    dx = dy * 2 * d / count
    return dx, -dx


def features(x, w):
    """exp(x w - |x|²/2): the positive random features of a softmax kernel."""
    y = np.exp(x @ w - (x * x).sum(axis=1, keepdims=True) / 2)
    return y, (x, w, y)


def features_backward(dy, cache):
    x, w, y = cache
    dz = dy * y
    return dz @ w.T - x * dz.sum(axis=1, keepdims=True), x.T @ dz


def bits(x):
    """The entropy of a coin that shows heads with the chance σ(x), in bits."""
    p = sigmoid(x)
    return -(p * np.log(p) + (1 - p) * np.log(1 - p)) / np.log(2), (x, p)


def bits_backward(dy, cache):
    x, p = cache
    return (-dy * x * p * (1 - p) / np.log(2),)


def harmonic(a, b):
    return 2 * a * b / (a + b), (a, b)


def harmonic_backward(dy, cache):
    a, b = cache
    return dy * 2 * b * b / (a + b) ** 2, dy * 2 * a * a / (a + b) ** 2


def bilinear(x, w, z):
    """x_nᵀ w z_n / √3 for each n."""
    u = x @ w / np.sqrt(3)
    return (u * z).sum(axis=1), (x, w, z, u)


def bilinear_backward(dy, cache):
    x, w, z, u = cache
    du = dy[:, None] * z / np.sqrt(3)
    return du @ w.T, x.T @ du, dy[:, None] * u


def ridge(weight):
    """Half the square of x w and weight times half the square of w."""

    def forward(x, w):
        u = x @ w
        return ((u * u).sum() + weight * (w * w).sum()) / 2, (x, w, u)

    def backward(dy, cache):
        x, w, u = cache
        return dy * (u @ w.T), dy * (x.T @ u + weight * w)

    return forward, backward


def root_unit(x):
    """x / √(1 + x²): the inverse square root unit."""
    return x / np.sqrt(1 + x * x), x


def root_unit_backward(dy, x):
    return (dy / (1 + x * x) ** 1.5,)
