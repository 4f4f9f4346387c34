"""For each identity on an operation something wrong that it catches: no identity may pass whatever it is given."""

import numpy as np

from npformer import functional as F  # noqa: N812
from npformer.check.cases.case import DRAW
from npformer.functional import AttentionMask
from tests.check.functions import normals, pair, scaled
from tests.check.small_models import broken

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
SMOOTH = (LOGITS, TARGETS, 0, 0.1)
CAUSAL = AttentionMask(causal=True, query_offset=2)
DROPPED = (Q, K, V, SEEN, DRAW)


def no_mean_of_tokens(dy, cache):
    dx, *others = F.batch_norm_backward(dy, cache)
    return dx + cache.r * cache.shares * np.sum(dy * cache.gamma, axis=tuple(range(dy.ndim - 1))), *others


def into_pad_row(dy, cache):
    dtable = F.embedding_backward(dy, cache)[0]
    dtable[0] += dy[0, 0]
    return (dtable,)


def not_smoothed(dloss, cache):
    """(1 − ε)·onehot is subtracted, ε/V forgotten."""
    return F.cross_entropy_backward(dloss, cache._replace(q=np.where(cache.q > cache.q.min(), cache.q, 0.0)))


#: what is wrong -> the identity that says so, the backward, and inputs
WRONG = {
    "linear: dW over the batch": ("linear-weights", scaled("linear", 1, 0.5, 1), X, W, B),
    "linear: db over the batch": ("last-bias", scaled("linear", 1, 1, 0.5), X, W, B),
    "linear: dx doubled": ("linear-inputs", scaled("linear", 2, 1, 1), X, W, B),
    "linear: dx a thousandth off": ("linear-exchange", scaled("linear", 1.001, 1, 1), X, W, B),
    "linear: db doubled": ("adjoint", scaled("linear", 1, 1, 2), X, W, B),
    "gelu: one percent off": ("gelu-odd", scaled("gelu", 1.01), X),
    "residual: path cut": ("residual", scaled("residual", 0, 1), X, F_OUT, DRAW),
    "residual: path cut, too": ("path-integral", scaled("residual", 0, 1), X, F_OUT, DRAW),
    "embedding: into the pad row": ("absent-tokens", into_pad_row, *EMBEDDING),
    "layer_norm: dx two percent off": ("layer-norm-scale", scaled("layer_norm", 1.02, 1, 1), *NARROW),
    "layer_norm: dβ halved": ("layer-norm-parameters", scaled("layer_norm", 1, 1, 0.5), *NORM),
    "batch_norm: no mean": ("batch-norm-shift", no_mean_of_tokens, *NORM[:3]),
    "attention: 1/√D forgotten in dK": ("attention-query-key", scaled("attention", 1, 2, 1), Q, K, V),
    "attention: 1/√D twice in dQ": ("attention-query-key", scaled("attention", 0.5, 1, 1), *DROPPED),
    "cross_entropy: ε/V forgotten": ("cross-entropy-rows", not_smoothed, *SMOOTH),
}
#: an operation with a bug of the museum, and the identity that finds it
IN_MUSEUM = [
    ("relu", "relu-gate-of-gradient", "gate", X),
    *(("dropout", "dropout-redrawn", claim, X, DRAW) for claim in ("gate", "path-integral", "adjoint")),
    ("dropout", "dropout-no-scale-backward", "gate", X, DRAW),
    ("gelu", "gelu-tanh-derivative", "path-integral", X),
    ("residual", "dropout-no-mask", "residual", X, F_OUT, DRAW),
    ("embedding", "embedding-assigned", "embedding-rows", *EMBEDDING),
    ("embedding", "embedding-no-scale", "embedding-rows", *EMBEDDING),
    ("learned_positions", "learned-positions-mean", "positions", X, TABLE, 2),
    ("sinusoidal_positions", "positions-base", "sinusoid", X),
    ("softmax", "softmax-no-shared", "softmax-rows", X),
    *(("softmax", "softmax-over-batch", claim, X) for claim in ("softmax-logarithm", "path-integral")),
    ("softmax", "softmax-minus-1e9", "softmax-sum", X, np.zeros((2, 1, 1), bool)),
    ("layer_norm", "layer-norm-no-mean", "layer-norm-shift", *NORM),
    *(("layer_norm", "layer-norm-gamma-outside", claim, *NORM) for claim in ("layer-norm-scale", "path-integral")),
    ("layer_norm", "layer-norm-no-variance", "layer-norm-scale", *NORM),
    ("layer_norm", "layer-norm-gamma-twice", "layer-norm-parameters", *NORM),
    ("layer_norm", "layer-norm-unbiased", "layer-norm-statistics", *NORM),
    ("layer_norm", "layer-norm-eps-outside", "layer-norm-statistics", *NORM),
    ("layer_norm", "layer-norm-no-eps", "layer-norm-statistics", *NORM),
    ("attention", "softmax-no-shared", "attention-key-shift", Q, K, V),
    ("attention", "softmax-no-shared", "attention-symmetry", *DROPPED),
    ("attention", "attention-scale-twice", "path-integral", *DROPPED),
    *(
        ("attention", "attention-dv-before-dropout", claim, *DROPPED)
        for claim in ("attention-values", "attention-value-shift", "adjoint")
    ),
    ("attention", "softmax-minus-1e9", "attention-nothing", Q, K, V, SEEN),
    ("attention", "causal-one-ahead", "attention-visible", Q, K, V, CAUSAL),
    ("attention", "causal-diagonal-hidden", "attention-visible", Q, K, V, CAUSAL),
    ("feed_forward", "dropout-no-mask", "relu-units", *FFN),
    ("cross_entropy", "loss-counts-padding", "cross-entropy-uniform", *SMOOTH),
    ("cross_entropy", "loss-by-batch", "path-integral", *SMOOTH),
]
BREAKERS = {name: broken(claim, pair(name, wrong), *inputs) for name, (claim, wrong, *inputs) in WRONG.items()} | {
    f"{name}: {bug}, {claim}": broken(claim, pair(name), *inputs, bug=bug) for name, bug, claim, *inputs in IN_MUSEUM
}
