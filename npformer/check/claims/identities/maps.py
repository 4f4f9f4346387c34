"""Identities of maps of single tokens and numbers: linear, ReLU, GELU, dropout, residual, embedding, positions.

And of normalisation, over columns or over a batch, alone and with the residual sum before it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from npformer.check.claims.identities.identity import Claim, Claims, identity, size, sum_is_0, sum_of
from npformer.check.claims.invariants.probe import Probe, Run
from npformer.check.claims.invariants.result import DoesNotApply
from npformer.functional import dropout_forward
from npformer.typing import HostArray, Shape


def _output(run: Run) -> tuple[HostArray, HostArray]:
    """(y, dy) of something with one output."""
    return run.outputs["output"], run.upstream["output"]


def _rows(x: HostArray) -> HostArray:
    return x.reshape(-1, x.shape[-1])


@identity("linear-weights", "Σ_i W_ij dW_ij + b_j db_j = Σ_n y_nj dy_nj for each column j", "linear", "Linear")
def linear_weights(probe: Probe) -> Claims:
    """Euler: scaling column j of W and b_j by α scales y_j by α. d/dα of L at α = 1, written in both ways:

    Σ_i W_ij dW_ij + b_j db_j = Σ_n y_nj dy_nj
    """
    run, at = probe.run(), probe.tensors
    y, dy = _output(run)
    got = np.sum(at["weight"] * run.gradients["weight"], axis=0) + at["bias"] * run.gradients["bias"]
    yield sum_of("columns of W", y * dy, got)


@identity("linear-inputs", "Σ_i x_ni dx_ni = Σ_j (y_nj − b_j) dy_nj for each token n", "linear", "Linear")
def linear_inputs(probe: Probe) -> Claims:
    """Euler again, for token n: scaling x_n by α scales y_n − b by α, so both derivatives at α = 1 are equal."""
    run, at = probe.run(), probe.tensors
    y, dy = _output(run)
    got = np.sum(at["x"] * run.gradients["x"], axis=-1)
    yield sum_of("tokens of x", (y - at["bias"]) * dy, got, axis=-1)


@identity("linear-exchange", "xᵀ dx = dW Wᵀ", "linear", "Linear")
def linear_exchange(probe: Probe) -> Claims:
    """x W does not change if x → x M and W → M⁻¹ W. M = I + αA, d/dα at α = 0: <dx, x A> = <dW, A W> for every A, so

    Σ_n x_nj dx_ni = Σ_k dW_jk W_ik
    """
    run, at = probe.run(), probe.tensors
    x, dx = _rows(at["x"]), _rows(run.gradients["x"])
    terms = np.abs(x).T @ np.abs(dx)
    yield Claim("xᵀ dx", run.gradients["weight"] @ at["weight"].T, x.T @ dx, size(terms))


LAST_BIAS = {
    "linear": "bias", "Linear": "bias", "feed_forward": "b2", "FeedForward": "down.bias",
    "MultiHeadAttention": "output.bias", "Transformer": "generator.bias",
}  # fmt: skip


@identity("last-bias", "the bias that is added last has the gradient Σ_tokens dy", *LAST_BIAS)
def last_bias(probe: Probe) -> Claims:
    """y = (what does not depend on b) + b for every token, so db = Σ_tokens dy."""
    run = probe.run()
    name = next(name for name in LAST_BIAS.values() if name in run.gradients)
    (dy,) = run.upstream.values()
    yield sum_of(f"gradient of {name}", dy, run.gradients[name])


@identity("gate", "x·dx = y·dy, element by element", "relu", "dropout", "Dropout")
def gate(probe: Probe) -> Claims:
    """y = a·x with a factor a that is locally constant (ReLU's gate, dropout's keep·s), so dx = a·dy,
    and x·dx = x·a·dy = y·dy for each element alone.
    """
    run = probe.run()
    y, dy = _output(run)
    yield Claim("x·dx", y * dy, probe.tensors["x"] * run.gradients["x"], size(y, dy))


@identity("gelu-odd", "y(x) − y(−x) = x and dx(x) + dx(−x) = dy", "gelu")
def gelu_odd(probe: Probe) -> Claims:
    """Φ(x) + Φ(−x) = 1, so x·Φ(x) − (−x)·Φ(−x) = x; the derivative of that, dx(x) + dx(−x) = dy."""
    x, run = probe.tensors["x"], probe.run()
    mirrored = probe.run({"x": -x}, upstream=run.upstream)
    (y, dy), (y_mirrored, _) = _output(run), _output(mirrored)
    yield Claim("y(x) − y(−x)", x, y - y_mirrored, size(x))
    yield Claim("dx(x) + dx(−x)", dy, run.gradients["x"] + mirrored.gradients["x"], size(dy))


@identity(
    "residual", "dx is dy (or the norm's), and df is dx kept·scaled where f was", "residual", "post_norm", "add_norm"
)
def residual(probe: Probe) -> Claims:
    """All that follows sees total = x + f·keep·s, with the mask of this draw: dx = dtotal, df = dx·keep·s.

    For the bare sum dtotal is dy itself.
    """
    run = probe.run()
    dx, df = run.gradients["x"], run.gradients["f"]
    m = dropout_factor(probe, dx.shape)
    if probe.inputs.keys() <= {"x", "f", "draw"}:
        yield Claim("gradient of x", run.upstream["output"], dx, exact=True)
    yield Claim("gradient of f", m * dx, df, size(m, dx))


def dropout_factor(probe: Probe, shape: Shape) -> HostArray:
    """keep·s of a pair's draw, which is the output for ones; 1 without a draw."""
    draw: Any = probe.inputs.get("draw")
    return np.asarray(dropout_forward(np.ones(shape), draw)[0])


def _table(probe: Probe) -> str:
    return "table" if "table" in probe.inputs else "weight"


@identity("embedding-rows", "each row's gradient is the sum over the tokens that used it", "embedding", "Embedding")
def embedding_rows(probe: Probe) -> Claims:
    """y_n = scale·table_v for every n with token_n = v. Scaling one entry table_vc by α scales these y_nc by α:

    table_vc dtable_vc = Σ_{n: token_n = v} y_nc dy_nc
    and a shift of all rows by one vector shifts every y_n by scale times it: Σ_v dtable_v = scale·Σ_n dy_n
    """
    run, table = probe.run(), probe.tensors[_table(probe)]
    y, dy = (_rows(x) for x in _output(run))
    tokens, dtable = np.asarray(probe.inputs["tokens"]).reshape(-1), run.gradients[_table(probe)]
    by_row = np.stack([np.sum((y * dy)[tokens == v], axis=0) for v in range(len(table))])
    yield Claim("table·dtable", by_row, table * dtable, size(y, dy) * len(tokens))
    used = table[tokens]
    scale = np.sum(y * used) / np.sum(used * used)
    yield Claim("Σ_v dtable_v", scale * np.sum(dy, axis=0), np.sum(dtable, axis=0), abs(scale) * size(dy) * len(tokens))


@identity(
    "absent-tokens", "rows of tokens that do not occur have gradient exactly 0", "embedding", "Embedding", "Transformer"
)
def absent_tokens(probe: Probe) -> Claims:
    """No output depends on a row that nobody looked up. (A tied table is used by the output as well.)"""
    run = probe.run()
    tables = {_table(probe): "tokens"}
    if "src_embedding.weight" in probe.parameters:
        tables = {"src_embedding.weight": "src", "tgt_embedding.weight": "tgt_in"}
    if not tables.keys() <= run.gradients.keys():
        raise DoesNotApply("the embeddings are tied, so the output projection uses every row")
    for name, tokens in tables.items():
        dtable = run.gradients[name]
        absent = np.setdiff1d(np.arange(len(dtable)), np.asarray(probe.inputs[tokens]))
        if len(absent):
            yield Claim(f"gradient of {name}, absent rows", np.zeros_like(dtable[absent]), dtable[absent], exact=True)


@identity("positions", "dx = dy, and a learned row's gradient is the sum over the batch",
         "sinusoidal_positions", "learned_positions", "SinusoidalPositions", "LearnedPositions")  # fmt: skip
def positions(probe: Probe) -> Claims:
    """y = x + (what depends on the position alone): dx = dy; row t of a table was added to token t of every
    sequence, dtable_t = Σ_B dy_t, and the other rows to none.
    """
    run = probe.run()
    _, dy = _output(run)
    yield Claim("gradient of x", dy, run.gradients["x"], exact=True)
    for name in {"table", "weight"} & run.gradients.keys():
        dtable, offset = run.gradients[name], _offset(probe)
        expected = np.zeros_like(dtable)
        expected[offset : offset + dy.shape[-2]] = np.sum(dy.reshape(-1, *dy.shape[-2:]), axis=0)
        yield Claim(f"gradient of {name}", expected, dtable, size(dy) * dy.shape[0])


@identity("sinusoid", "y − x is sin(pos/10000^(2i/C)) in column 2i and the cosine in column 2i+1",
         "sinusoidal_positions", "SinusoidalPositions")  # fmt: skip
def sinusoid(probe: Probe) -> Claims:
    """The definition (Vaswani et al. 2017, section 3.5), entry by entry, with a power instead of an exp."""
    x, y = probe.tensors["x"], probe.outputs()["output"]
    column = np.arange(x.shape[-1])
    angle = (_offset(probe) + np.arange(x.shape[-2]))[:, None] / 10000.0 ** (2 * (column // 2) / x.shape[-1])
    wave = np.where(column % 2 == 0, np.sin(angle), np.cos(angle))
    yield Claim("y − x", np.broadcast_to(wave, x.shape), y - x, max(1.0, size(x)))


def _offset(probe: Probe) -> int:
    offset: Any = probe.inputs.get("offset", probe.options.get("offset", 0))
    return int(offset)


OVER_A_BATCH = ("batch_norm", "batch_norm_inference", "BatchNorm")
NORMS = ("layer_norm", "LayerNorm", "post_norm", "add_norm")


class Norm(NamedTuple):
    """y = γ·x̂ + β of x, and their gradients; for a norm after a residual sum, x is the sum."""

    x: HostArray
    y: HostArray
    gamma: HostArray
    beta: HostArray
    dx: HostArray
    dy: HostArray
    dgamma: HostArray
    dbeta: HostArray
    eps: float


def _norm(probe: Probe) -> Norm:
    run, at = probe.run(), probe.tensors
    x, dx = at["x"], run.gradients["x"]
    if "f" in at:
        x = x + dropout_factor(probe, x.shape) * at["f"]
    name = "output"
    if "output 0" in run.outputs:  # add_norm: the sum is handed on as well, and takes its own gradient along
        name, dx = "output 1", dx - run.upstream["output 0"]
    eps = float(probe.inputs.get("eps", getattr(probe.target, "eps", 1e-5)))
    gradients = (dx, run.upstream[name], run.gradients["gamma"], run.gradients["beta"])
    return Norm(x, run.outputs[name], at["gamma"], at["beta"], *gradients, eps)


def _statistics(n: Norm) -> tuple[HostArray, HostArray]:
    """(x − μ, σ² + ε)."""
    centred = n.x - np.mean(n.x, axis=-1, keepdims=True)
    return centred, np.mean(centred * centred, axis=-1, keepdims=True) + n.eps


@identity("layer-norm-shift", "Σ_C dx = 0 for each token", *NORMS)
def layer_norm_shift(probe: Probe) -> Claims:
    """x and x + t·1 have the same x̂, so L does not change along 1: <dx, 1> = 0. ε plays no part."""
    yield sum_is_0("Σ_C dx", _norm(probe).dx, axis=-1)


@identity("layer-norm-scale", "<x − μ, dx> = ε/(σ² + ε)·<y − β, dy> for each token", *NORMS)
def layer_norm_scale(probe: Probe) -> Claims:
    """Along the ray μ + α(x − μ), x̂(α) = α·u/√(α²σ² + ε) with u = x − μ, so at α = 1

    dx̂/dα = u·r − u·σ²·r³ = x̂·(1 − σ²r²) = x̂·ε·r²      r = 1/√(σ² + ε)

    and dL/dα = <u, dx> = Σ γ·dy·x̂·ε·r² = ε·r²·<y − β, dy>. Without ε it would be 0: dx ⟂ x̂.
    """
    n = _norm(probe)
    u, variance = _statistics(n)
    expected = n.eps / variance[..., 0] * np.sum((n.y - n.beta) * n.dy, axis=-1)
    terms = np.sum(np.abs(u * n.dx), axis=-1)
    yield Claim("<x − μ, dx>", expected, np.sum(u * n.dx, axis=-1), size(terms))


@identity("layer-norm-parameters", "dβ = Σ_tokens dy and γ·dγ = Σ_tokens (y − β)·dy", *NORMS, *OVER_A_BATCH)
def layer_norm_parameters(probe: Probe) -> Claims:
    """β_c is added to channel c of every token; scaling γ_c by α scales y_c − β_c by α (Euler)."""
    n = _norm(probe)
    yield sum_of("gradient of beta", n.dy, n.dbeta)
    yield sum_of("γ·dγ", (n.y - n.beta) * n.dy, n.gamma * n.dgamma)


@identity("layer-norm-statistics", "y is γ·(x − μ)/√(σ² + ε) + β, and β for a constant token", *NORMS)
def layer_norm_statistics(probe: Probe) -> Claims:
    """The definition, with the mean of squares over C (not C − 1) and ε inside the root.

    A constant token has x − μ = 0, hence x̂ = 0 and y = β. Its dx is finite because r = 1/√ε is.
    """
    n = _norm(probe)
    u, variance = _statistics(n)
    expected = n.gamma * u / np.sqrt(variance) + n.beta
    yield Claim("y", expected, n.y, size(expected) * max(1.0, size(n.x / np.sqrt(variance))))
    constant = {name: np.full(n.x.shape, 0.75) for name in ("x", "f") if name in probe.inputs}
    run = probe.run(constant | ({"draw": None} if "draw" in probe.inputs else {}))
    y = list(run.outputs.values())[-1]
    yield Claim("y of constant tokens", np.broadcast_to(n.beta, y.shape), y, size(n.beta))
    finite = np.isfinite(run.gradients["x"])
    yield Claim("dx of constant tokens is finite", np.ones(finite.shape), finite.astype(float), exact=True)


@identity("batch-norm-shift", "Σ_tokens dx = 0 for each column, padding's dx among them", "batch_norm", "BatchNorm")
def batch_norm_shift(probe: Probe) -> Claims:
    """x and x + 1·c, one number c for each column and the same at every token, have the same x̂, since μ moves along.

    So L does not change: <Σ_tokens dx, c> = 0. Padding does not move μ, but is moved along, so it belongs into the sum.
    """
    if not probe.is_pair and "key" not in probe.options:
        raise DoesNotApply("in inference the statistics are constants, which do not move along")
    yield sum_is_0("Σ_tokens dx", probe.run().gradients["x"])
