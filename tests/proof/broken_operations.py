"""For each identity on an operation a wrong pair that it catches: no identity may pass whatever it is given."""

import math
from dataclasses import replace

import numpy as np

from npformer import functional as F  # noqa: N812
from npformer.functional import AttentionMask
from npformer.functional.positions import sinusoidal_table
from npformer.proof.case import DRAW
from tests.proof.functions import normals, row_mean
from tests.proof.small_models import attend_minus_1e9, attend_one_ahead, broken, ffn_mask_forgotten, root_forgotten

normal = normals()
X, F_OUT, W, B = normal(2, 3, 4), normal(2, 3, 4), normal(4, 5), normal(5)
GAMMA, BETA = normal(4), normal(4)
Q, K, V = normal(2, 2, 3, 4), normal(2, 2, 5, 4), normal(2, 2, 5, 4)
SEEN = AttentionMask(np.arange(5) < np.array([[5], [0]]))  # the second sequence is all padding
TOKENS, TABLE = np.array([[3, 1, 3], [2, 3, 4]]), normal(6, 4)
LOGITS, TARGETS = normal(2, 3, 5), np.array([[1, 4, 0], [2, 0, 0]])
FFN = (X, normal(4, 6), normal(6), normal(6, 4), normal(4), "relu", DRAW)
NORM = (X, GAMMA, BETA, 1e-5)
NARROW = (2 + 1e-2 * X, GAMMA, BETA, 1e-5)  # σ² near ε, so that ε counts
EMBEDDING = (TOKENS, TABLE, 2.0)


def pair(name, backward):
    return getattr(F, f"{name}_forward"), backward


def scaled(name, *factors):
    """The backward, with its gradients multiplied by factors."""
    backward = getattr(F, f"{name}_backward")
    return lambda dy, cache: tuple(f * gradient for f, gradient in zip(factors, backward(dy, cache), strict=True))


def no_mean_of_tokens(dy, cache):
    dx, *others = F.batch_norm_backward(dy, cache)
    return dx + cache.r * cache.shares * np.sum(dy * cache.gamma, axis=tuple(range(dy.ndim - 1))), *others


def gelu_of_tanh(dy, cache):
    """The derivative of the tanh form, for the erf form."""
    x, c = cache.x, math.sqrt(2 / math.pi)
    t = np.tanh(c * (x + 0.044715 * x**3))
    return (dy * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x)),)


def last_token_wins(dy, cache):
    dtable = np.zeros((cache.num_rows, dy.shape[-1]))
    dtable[cache.tokens.reshape(-1)] = cache.scale * dy.reshape(-1, dy.shape[-1])
    return (dtable,)


def into_pad_row(dy, cache):
    dtable = F.embedding_backward(dy, cache)[0]
    dtable[0] += dy[0, 0]
    return (dtable,)


def mean_over_batch(dy, cache):
    dx, dtable = F.learned_positions_backward(dy, cache)
    return dx, dtable / len(dy)


def base_100000(x, offset=0):
    fast = sinusoidal_table(x.shape[-2], x.shape[-1], offset, x)
    angle = np.arange(x.shape[-2])[:, None] / 100000.0 ** (2 * (np.arange(x.shape[-1]) // 2) / x.shape[-1])
    return x + np.where(np.arange(x.shape[-1]) % 2, np.cos(angle), np.sin(angle)) + 0 * fast, ()


def norm_with(*, mean=True, along=True, outside=False):
    """A backward of LayerNorm that leaves out a term, or multiplies by γ at its end."""

    def backward(dy, cache):
        x_hat, r, gamma = cache
        g = dy if outside else dy * gamma
        dx = g - mean * row_mean(g) - along * x_hat * row_mean(g * x_hat)
        return (gamma if outside else 1.0) * r * dx, (dy * x_hat).sum(axis=(0, 1)), dy.sum(axis=(0, 1))

    return backward


def gain_from_y(dy, cache):
    dx, _, dbeta = F.layer_norm_backward(dy, cache)
    return dx, (dy * cache.x_hat * cache.gamma).sum(axis=(0, 1)), dbeta


def unbiased(x, gamma, beta, eps):
    c = x.shape[-1]
    y, cache = F.layer_norm_forward(x, gamma * math.sqrt((c - 1) / c), beta, eps * (c - 1) / c)
    return y, cache._replace(gamma=gamma)


def eps_outside(x, gamma, beta, eps):
    centred = x - row_mean(x)
    r = 1 / (np.sqrt(row_mean(centred**2)) + eps)
    return gamma * centred * r + beta, F.layer_norm_forward(x, gamma, beta, eps)[1]._replace(r=r, x_hat=centred * r)


def no_eps(x, gamma, beta, eps):
    with np.errstate(all="ignore"):
        return F.layer_norm_forward(x, gamma, beta, 0.0)


def flawed(flaw):
    """The right backward of attention, but for one flaw."""

    def backward(dout, cache):
        q, k, v, (w,), dropout = cache
        scale = 1 / math.sqrt(q.shape[-1])
        (dropped,) = (w,) if flaw == "dV before dropout" else F.dropout_backward(w, dropout)
        (dw,) = F.dropout_backward(dout @ np.swapaxes(v, -1, -2), dropout)
        dscores = w * dw if flaw == "no sum" else w * (dw - (w * dw).sum(axis=-1, keepdims=True))
        dq = dscores @ k * (scale**2 if flaw == "scale twice" else scale)
        dk = np.swapaxes(dscores, -1, -2) @ q * (1 if flaw == "scale forgotten" else scale)
        return dq, dk, np.swapaxes(dropped, -1, -2) @ dout

    return backward


def own_hidden(q, k, v, mask):
    return F.attention_forward(q, k, v, replace(mask, query_offset=mask.query_offset - 1))


def not_smoothed(dloss, cache):
    """(1 − ε)·onehot is subtracted, ε/V forgotten."""
    q = np.where(cache.q > cache.q.min(), cache.q, 0.0)
    return ((cache.p - q) * (cache.counted * (dloss / cache.num_counted)),)


def over_batch_alone(dloss, cache):
    return F.cross_entropy_backward(dloss * cache.num_counted / len(cache.p), cache)


def counts_padding(logits, targets, ignore_index, label_smoothing):
    loss, cache = F.cross_entropy_forward(logits, targets, ignore_index, label_smoothing)
    return loss * cache.num_counted / targets.size, cache._replace(num_counted=np.asarray(float(targets.size)))


SMOOTH = (LOGITS, TARGETS, 0, 0.1)
CAUSAL = AttentionMask(causal=True, query_offset=2)
#: what is wrong -> the identity that says so, the backward, or a pair with a wrong forward, and inputs; the name before
#: the colon is the operation
WRONG = {
    "linear: dW over the batch": ("linear-weights", scaled("linear", 1, 0.5, 1), X, W, B),
    "linear: db over the batch": ("last-bias", scaled("linear", 1, 1, 0.5), X, W, B),
    "linear: dx doubled": ("linear-inputs", scaled("linear", 2, 1, 1), X, W, B),
    "linear: dx a thousandth off": ("linear-exchange", scaled("linear", 1.001, 1, 1), X, W, B),
    "linear: db doubled": ("adjoint", scaled("linear", 1, 1, 2), X, W, B),
    "relu: gate of the gradient": ("gate", lambda dy, cache: (np.maximum(dy, 0),), X),
    "dropout: scale forgotten": ("gate", lambda dy, cache: (dy * cache.keep,), X, DRAW),
    "gelu: one percent off": ("gelu-odd", scaled("gelu", 1.01), X),
    "gelu: derivative of tanh": ("path-integral", gelu_of_tanh, X),
    "residual: path cut": ("residual", scaled("residual", 0, 1), X, F_OUT, DRAW),
    "residual: mask forgotten": ("residual", lambda dy, cache: (dy, dy), X, F_OUT, DRAW),
    "embedding: last token wins": ("embedding-rows", last_token_wins, *EMBEDDING),
    "embedding: root forgotten": ("embedding-rows", root_forgotten, *EMBEDDING),
    "embedding: into the pad row": ("absent-tokens", into_pad_row, *EMBEDDING),
    "learned_positions: mean": ("positions", mean_over_batch, X, TABLE, 2),
    "sinusoidal_positions: base": ("sinusoid", (base_100000, F.sinusoidal_positions_backward), X),
    "softmax: no sum": ("softmax-rows", lambda dy, cache: (cache.y * dy,), X),
    "softmax: over the batch": ("softmax-logarithm", scaled("softmax", 1 / len(X)), X),
    "softmax: −1e9": (
        "softmax-sum",
        (lambda x, visible: F.softmax_forward(np.where(visible, x, -1e9)), F.softmax_backward),
        X,
        np.zeros((2, 1, 1), bool),
    ),
    "layer_norm: no mean": ("layer-norm-shift", norm_with(mean=False), *NORM),
    "layer_norm: γ outside": ("layer-norm-scale", norm_with(outside=True), *NORM),
    "layer_norm: no x̂": ("layer-norm-scale", norm_with(along=False), *NORM),
    "layer_norm: dx two percent off": ("layer-norm-scale", scaled("layer_norm", 1.02, 1, 1), *NARROW),
    "layer_norm: dγ of y": ("layer-norm-parameters", gain_from_y, *NORM),
    "layer_norm: dβ halved": ("layer-norm-parameters", scaled("layer_norm", 1, 1, 0.5), *NORM),
    "batch_norm: no mean": ("batch-norm-shift", no_mean_of_tokens, *NORM[:3]),
    "layer_norm: unbiased": ("layer-norm-statistics", (unbiased, F.layer_norm_backward), *NORM),
    "layer_norm: ε outside": ("layer-norm-statistics", (eps_outside, F.layer_norm_backward), *NORM),
    "layer_norm: no ε": ("layer-norm-statistics", (no_eps, F.layer_norm_backward), *NORM),
    "attention: no sum": ("attention-key-shift", flawed("no sum"), Q, K, V),
    "attention: scale forgotten": ("attention-query-key", flawed("scale forgotten"), Q, K, V),
    "attention: scale twice": ("attention-query-key", flawed("scale twice"), Q, K, V, SEEN, DRAW),
    "attention: no sum, masked": ("attention-symmetry", flawed("no sum"), Q, K, V, SEEN, DRAW),
    "attention: dV before dropout": ("attention-values", flawed("dV before dropout"), Q, K, V, SEEN, DRAW),
    "attention: Σ dV before dropout": ("attention-value-shift", flawed("dV before dropout"), Q, K, V, SEEN, DRAW),
    "attention: dV before dropout, too": ("adjoint", flawed("dV before dropout"), Q, K, V, SEEN, DRAW),
    "attention: −1e9": ("attention-nothing", (attend_minus_1e9, F.attention_backward), Q, K, V, SEEN),
    "attention: next key seen": ("attention-visible", (attend_one_ahead, F.attention_backward), Q, K, V, CAUSAL),
    "attention: own key hidden": ("attention-visible", (own_hidden, F.attention_backward), Q, K, V, CAUSAL),
    "feed_forward: mask forgotten": ("relu-units", ffn_mask_forgotten, *FFN),
    "cross_entropy: ε/V forgotten": ("cross-entropy-rows", not_smoothed, *SMOOTH),
    "cross_entropy: padding counted": ("cross-entropy-uniform", (counts_padding, F.cross_entropy_backward), *SMOOTH),
    "cross_entropy: over B alone": ("path-integral", over_batch_alone, *SMOOTH),
}
BREAKERS = {
    name: broken(claim, wrong if isinstance(wrong, tuple) else pair(name.split(":")[0], wrong), *inputs)
    for name, (claim, wrong, *inputs) in WRONG.items()
}
