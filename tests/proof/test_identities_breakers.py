"""For each identity on an operation a wrong pair that it catches: no identity may pass whatever it is given."""

import math
from dataclasses import replace

import numpy as np
import pytest

from npformer import functional as F  # noqa: N812
from npformer.functional import ALL_VISIBLE, AttentionMask, Draw
from npformer.functional.attention import AttentionCache
from npformer.functional.positions import sinusoidal_table
from npformer.proof.identities import IDENTITIES

rng = np.random.default_rng(0)
X, F_OUT, W, B = rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 3, 4)), rng.normal(size=(4, 5)), rng.normal(size=5)
GAMMA, BETA = rng.normal(size=4), rng.normal(size=4)
Q, K, V = rng.normal(size=(2, 2, 3, 4)), rng.normal(size=(2, 2, 5, 4)), rng.normal(size=(2, 2, 5, 4))
DRAW = Draw(seed=7, step=3, micro=1, site=11, rate=0.3)
SEEN = AttentionMask(np.arange(5) < np.array([[5], [0]]))  # the second sequence is all padding
TOKENS, TABLE = np.array([[3, 1, 3], [2, 3, 4]]), rng.normal(size=(6, 4))
LOGITS, TARGETS = rng.normal(size=(2, 3, 5)), np.array([[1, 4, 0], [2, 0, 0]])
FFN = (X, rng.normal(size=(4, 6)), rng.normal(size=6), rng.normal(size=(6, 4)), rng.normal(size=4), "relu", DRAW)
NORM = (X, GAMMA, BETA, 1e-5)
NARROW = (2 + 1e-2 * X, GAMMA, BETA, 1e-5)  # σ² near ε, so that ε counts


def scaled(name, *factors):
    """A pair whose gradients are multiplied by factors."""
    backward = getattr(F, f"{name}_backward")
    return getattr(F, f"{name}_forward"), lambda dy, cache: tuple(
        factor * gradient for factor, gradient in zip(factors, backward(dy, cache), strict=True)
    )


def pair(name, backward):
    return getattr(F, f"{name}_forward"), backward


def no_mean_of_tokens(dy, cache):
    dx, *others = F.batch_norm_backward(dy, cache)
    return dx + cache.r * cache.shares * np.sum(dy * cache.gamma, axis=tuple(range(dy.ndim - 1))), *others


def gate_of_gradient(dy, cache):
    return (np.maximum(dy, 0),)


def scale_forgotten(dy, cache):
    return (dy * cache.keep,)


def gelu_of_tanh(dy, cache):
    """The derivative of the tanh form, for the erf form."""
    x, c = cache.x, math.sqrt(2 / math.pi)
    t = np.tanh(c * (x + 0.044715 * x**3))
    return (dy * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x)),)


def gelu_off_by_one_percent(dy, cache):
    return (1.01 * F.gelu_backward(dy, cache)[0],)


def residual_cut(dy, cache):
    return np.zeros_like(dy), F.residual_backward(dy, cache)[1]


def mask_forgotten(dy, cache):
    return dy, dy


def last_token_wins(dy, cache):
    dtable = np.zeros((cache.num_rows, dy.shape[-1]))
    dtable[cache.tokens.reshape(-1)] = cache.scale * dy.reshape(-1, dy.shape[-1])
    return (dtable,)


def root_forgotten(dy, cache):
    return (F.embedding_backward(dy, cache)[0] / cache.scale,)


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


def softmax_without_sum(dy, cache):
    return (cache.y * dy,)


def softmax_over_batch(dy, cache):
    return (F.softmax_backward(dy, cache)[0] / len(dy),)


def softmax_minus_1e9(x, visible=None):
    return F.softmax_forward(np.where(visible, x, -1e9))


def norm_backward(dy, cache, *, mean=True, along=True, outside=False):
    x_hat, r, gamma = cache
    g = dy if outside else dy * gamma
    dx = g - mean * g.mean(axis=-1, keepdims=True) - along * x_hat * (g * x_hat).mean(axis=-1, keepdims=True)
    return (gamma if outside else 1.0) * r * dx, (dy * x_hat).sum(axis=(0, 1)), dy.sum(axis=(0, 1))


def no_mean(dy, cache):
    return norm_backward(dy, cache, mean=False)


def no_x_hat(dy, cache):
    return norm_backward(dy, cache, along=False)


def gamma_outside(dy, cache):
    return norm_backward(dy, cache, outside=True)


def gain_from_y(dy, cache):
    dx, _, dbeta = F.layer_norm_backward(dy, cache)
    return dx, (dy * cache.x_hat * cache.gamma).sum(axis=(0, 1)), dbeta


def unbiased(x, gamma, beta, eps):
    c = x.shape[-1]
    y, cache = F.layer_norm_forward(x, gamma * math.sqrt((c - 1) / c), beta, eps * (c - 1) / c)
    return y, cache._replace(gamma=gamma)


def eps_outside(x, gamma, beta, eps):
    centred = x - x.mean(axis=-1, keepdims=True)
    r = 1 / (np.sqrt((centred**2).mean(axis=-1, keepdims=True)) + eps)
    return gamma * centred * r + beta, F.layer_norm_forward(x, gamma, beta, eps)[1]._replace(r=r, x_hat=centred * r)


def no_eps(x, gamma, beta, eps):
    with np.errstate(all="ignore"):
        return F.layer_norm_forward(x, gamma, beta, 0.0)


def attention_backward(dout, cache, *, flaw=""):
    """The right backward, but for one flaw."""
    q, k, v, (w,), dropout = cache
    scale = 1 / math.sqrt(q.shape[-1])
    (dropped,) = (w,) if flaw == "dV before dropout" else F.dropout_backward(w, dropout)
    (dw,) = F.dropout_backward(dout @ np.swapaxes(v, -1, -2), dropout)
    dscores = w * dw if flaw == "no sum" else w * (dw - (w * dw).sum(axis=-1, keepdims=True))
    dq = dscores @ k * (scale**2 if flaw == "scale twice" else scale)
    dk = np.swapaxes(dscores, -1, -2) @ q * (1 if flaw == "scale forgotten" else scale)
    return dq, dk, np.swapaxes(dropped, -1, -2) @ dout


def flawed(flaw):
    return F.attention_forward, lambda dout, cache: attention_backward(dout, cache, flaw=flaw)


def attention_forward(q, k, v, mask=ALL_VISIBLE, draw=None):
    """−1e9 for hidden scores: where all are hidden, all come out equal."""
    scores = np.where(mask.visible(q.shape[2], k.shape[2], q), q @ np.swapaxes(k, -1, -2) / 2, -1e9)
    weights, softmax = F.softmax_forward(scores)
    dropped, dropout = F.dropout_forward(weights, draw)
    return dropped @ v, AttentionCache(q, k, v, softmax, dropout)


def ahead_forward(q, k, v, mask):
    return F.attention_forward(q, k, v, replace(mask, query_offset=mask.query_offset + 1))


def own_hidden(q, k, v, mask):
    return F.attention_forward(q, k, v, replace(mask, query_offset=mask.query_offset - 1))


def ffn_mask_forgotten(dy, cache):
    return F.feed_forward_backward(dy, cache._replace(dropout=cache.dropout._replace(keep=None)))


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
#: what is wrong -> (the identity that says so, the pair, its inputs); the name before the colon is the operation
BREAKERS = {
    "linear: dW over the batch": ("linear-weights", scaled("linear", 1, 0.5, 1), (X, W, B)),
    "linear: db over the batch": ("last-bias", scaled("linear", 1, 1, 0.5), (X, W, B)),
    "linear: dx doubled": ("linear-inputs", scaled("linear", 2, 1, 1), (X, W, B)),
    "linear: dx a thousandth off": ("linear-exchange", scaled("linear", 1.001, 1, 1), (X, W, B)),
    "linear: db doubled": ("adjoint", scaled("linear", 1, 1, 2), (X, W, B)),
    "relu: gate of the gradient": ("gate", pair("relu", gate_of_gradient), (X,)),
    "dropout: scale forgotten": ("gate", pair("dropout", scale_forgotten), (X, DRAW)),
    "gelu: one percent off": ("gelu-odd", pair("gelu", gelu_off_by_one_percent), (X,)),
    "gelu: derivative of tanh": ("path-integral", pair("gelu", gelu_of_tanh), (X,)),
    "residual: path cut": ("residual", pair("residual", residual_cut), (X, F_OUT, DRAW)),
    "residual: mask forgotten": ("residual", pair("residual", mask_forgotten), (X, F_OUT, DRAW)),
    "embedding: last token wins": ("embedding-rows", pair("embedding", last_token_wins), (TOKENS, TABLE, 2.0)),
    "embedding: root forgotten": ("embedding-rows", pair("embedding", root_forgotten), (TOKENS, TABLE, 2.0)),
    "embedding: into the pad row": ("absent-tokens", pair("embedding", into_pad_row), (TOKENS, TABLE, 2.0)),
    "learned_positions: mean": ("positions", pair("learned_positions", mean_over_batch), (X, TABLE, 2)),
    "sinusoidal_positions: base": ("sinusoid", (base_100000, F.sinusoidal_positions_backward), (X,)),
    "softmax: no sum": ("softmax-rows", pair("softmax", softmax_without_sum), (X,)),
    "softmax: over the batch": ("softmax-logarithm", pair("softmax", softmax_over_batch), (X,)),
    "softmax: −1e9": ("softmax-sum", (softmax_minus_1e9, F.softmax_backward), (X, np.zeros((2, 1, 1), bool))),
    "layer_norm: no mean": ("layer-norm-shift", pair("layer_norm", no_mean), NORM),
    "layer_norm: γ outside": ("layer-norm-scale", pair("layer_norm", gamma_outside), NORM),
    "layer_norm: no x̂": ("layer-norm-scale", pair("layer_norm", no_x_hat), NORM),
    "layer_norm: dx two percent off": ("layer-norm-scale", scaled("layer_norm", 1.02, 1, 1), NARROW),
    "layer_norm: dγ of y": ("layer-norm-parameters", pair("layer_norm", gain_from_y), NORM),
    "layer_norm: dβ halved": ("layer-norm-parameters", scaled("layer_norm", 1, 1, 0.5), NORM),
    "batch_norm: no mean": ("batch-norm-shift", pair("batch_norm", no_mean_of_tokens), NORM[:3]),
    "layer_norm: unbiased": ("layer-norm-statistics", (unbiased, F.layer_norm_backward), NORM),
    "layer_norm: ε outside": ("layer-norm-statistics", (eps_outside, F.layer_norm_backward), NORM),
    "layer_norm: no ε": ("layer-norm-statistics", (no_eps, F.layer_norm_backward), NORM),
    "attention: no sum": ("attention-key-shift", flawed("no sum"), (Q, K, V)),
    "attention: scale forgotten": ("attention-query-key", flawed("scale forgotten"), (Q, K, V)),
    "attention: scale twice": ("attention-query-key", flawed("scale twice"), (Q, K, V, SEEN, DRAW)),
    "attention: no sum, masked": ("attention-symmetry", flawed("no sum"), (Q, K, V, SEEN, DRAW)),
    "attention: dV before dropout": ("attention-values", flawed("dV before dropout"), (Q, K, V, SEEN, DRAW)),
    "attention: Σ dV before dropout": ("attention-value-shift", flawed("dV before dropout"), (Q, K, V, SEEN, DRAW)),
    "attention: dV before dropout, too": ("adjoint", flawed("dV before dropout"), (Q, K, V, SEEN, DRAW)),
    "attention: −1e9": ("attention-nothing", (attention_forward, F.attention_backward), (Q, K, V, SEEN)),
    "attention: next key seen": ("attention-visible", (ahead_forward, F.attention_backward), (Q, K, V, CAUSAL)),
    "attention: own key hidden": ("attention-visible", (own_hidden, F.attention_backward), (Q, K, V, CAUSAL)),
    "feed_forward: mask forgotten": ("relu-units", pair("feed_forward", ffn_mask_forgotten), FFN),
    "cross_entropy: ε/V forgotten": ("cross-entropy-rows", pair("cross_entropy", not_smoothed), SMOOTH),
    "cross_entropy: padding counted": ("cross-entropy-uniform", (counts_padding, F.cross_entropy_backward), SMOOTH),
    "cross_entropy: over B alone": ("path-integral", pair("cross_entropy", over_batch_alone), SMOOTH),
}  # fmt: skip


@pytest.mark.parametrize("broken", BREAKERS)
def test_what_is_broken_is_caught(broken):
    name, target, inputs = BREAKERS[broken]
    found = IDENTITIES[name](target, *inputs, kind=broken.split(":")[0])
    assert found.fails, str(found)
    assert found.violation is not None, found.reason


def test_the_same_pairs_without_a_flaw_pass():
    for broken, (name, _, inputs) in BREAKERS.items():
        operation = broken.split(":")[0]
        right = (getattr(F, f"{operation}_forward"), getattr(F, f"{operation}_backward"))
        found = IDENTITIES[name](right, *inputs)
        assert found.holds, f"{broken}: {found}"
    assert IDENTITIES["attention-query-key"](flawed(""), Q, K, V, SEEN, DRAW).holds


def test_every_identity_on_an_operation_has_a_breaker():
    networks = {"MultiHeadAttention", "Transformer", "EncoderLayer"}
    on_operations = {name for name, one in IDENTITIES.items() if not one.applies_to & networks}
    assert on_operations <= {name for name, *_ in BREAKERS.values()}


@pytest.mark.parametrize(
    "broken", ["layer_norm: γ outside", "softmax: over the batch", "residual: path cut", "attention: scale twice"]
)
def test_the_path_integral_catches_them_too(broken):
    _, target, inputs = BREAKERS[broken]
    assert IDENTITIES["path-integral"](target, *inputs).fails


def test_a_mask_drawn_anew_in_backward_does_not_hold():
    own = np.random.default_rng(0)

    def redrawn(dy, cache):
        return (dy * (own.random(dy.shape) > 0.3) / 0.7,)

    for name in ("gate", "path-integral", "adjoint"):
        assert IDENTITIES[name](pair("dropout", redrawn), X, DRAW).fails
