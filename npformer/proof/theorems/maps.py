"""Theorems on maps of single tokens and numbers: linear, ReLU, GELU, dropout, residual, embedding, positions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from npformer.functional import dropout_forward
from npformer.proof.certificates.result import DoesNotApply
from npformer.proof.certificates.trial import Run, Trial
from npformer.proof.subject import Host
from npformer.proof.theorems.theorem import Claim, over_tokens, size, theorem


def _output(run: Run) -> tuple[Host, Host]:
    """(y, dy) of something with one output."""
    return run.outputs["output"], run.upstream["output"]


def _rows(x: Host) -> Host:
    return x.reshape(-1, x.shape[-1])


@theorem("linear-weights", "Σ_i W_ij dW_ij + b_j db_j = Σ_n y_nj dy_nj for each column j", "linear", "Linear")
def linear_weights(trial: Trial) -> Iterator[Claim]:
    """Euler: scaling column j of W and b_j by α scales y_j by α. d/dα of L at α = 1, written in both ways:

    Σ_i W_ij dW_ij + b_j db_j = Σ_n y_nj dy_nj
    """
    run, at = trial.run(), trial.tensors
    y, dy = _output(run)
    got = np.sum(at["weight"] * run.gradients["weight"], axis=0) + at["bias"] * run.gradients["bias"]
    yield Claim("columns of W", over_tokens(y * dy), got, size(over_tokens(np.abs(y * dy))))


@theorem("linear-inputs", "Σ_i x_ni dx_ni = Σ_j (y_nj − b_j) dy_nj for each token n", "linear", "Linear")
def linear_inputs(trial: Trial) -> Iterator[Claim]:
    """Euler again, for token n: scaling x_n by α scales y_n − b by α, so both derivatives at α = 1 are equal."""
    run, at = trial.run(), trial.tensors
    y, dy = _output(run)
    terms = (y - at["bias"]) * dy
    got = np.sum(at["x"] * run.gradients["x"], axis=-1)
    yield Claim("tokens of x", np.sum(terms, axis=-1), got, size(np.sum(np.abs(terms), axis=-1)))


@theorem("linear-exchange", "xᵀ dx = dW Wᵀ", "linear", "Linear")
def linear_exchange(trial: Trial) -> Iterator[Claim]:
    """x W does not change if x → x M and W → M⁻¹ W. With M = 1 + εA: <dx, x A> = <dW, A W> for every A, hence

    Σ_n x_nj dx_ni = Σ_k dW_jk W_ik
    """
    run, at = trial.run(), trial.tensors
    x, dx = _rows(at["x"]), _rows(run.gradients["x"])
    terms = np.abs(x).T @ np.abs(dx)
    yield Claim("xᵀ dx", run.gradients["weight"] @ at["weight"].T, x.T @ dx, size(terms))


LAST_BIAS = {
    "linear": "bias", "Linear": "bias", "feed_forward": "b2", "FeedForward": "down.bias",
    "MultiHeadAttention": "output.bias", "Transformer": "generator.bias",
}  # fmt: skip


@theorem("last-bias", "the bias that is added last has the gradient Σ_tokens dy", *LAST_BIAS)
def last_bias(trial: Trial) -> Iterator[Claim]:
    """y = (what does not depend on b) + b for every token, so db = Σ_tokens dy."""
    run = trial.run()
    name = next(name for name in LAST_BIAS.values() if name in run.gradients)
    (dy,) = run.upstream.values()
    yield Claim(f"gradient of {name}", over_tokens(dy), run.gradients[name], size(over_tokens(np.abs(dy))))


@theorem("gate", "x·dx = y·dy, element by element", "relu", "dropout", "Dropout")
def gate(trial: Trial) -> Iterator[Claim]:
    """y = m·x with a factor m that is locally constant (ReLU's gate, dropout's keep·s), so dx = m·dy,
    and x·dx = x·m·dy = y·dy for each element alone.
    """
    run = trial.run()
    y, dy = _output(run)
    yield Claim("x·dx", y * dy, trial.tensors["x"] * run.gradients["x"], size(y, dy))


@theorem("gelu-odd", "y(x) − y(−x) = x and dx(x) + dx(−x) = dy", "gelu")
def gelu_odd(trial: Trial) -> Iterator[Claim]:
    """Φ(x) + Φ(−x) = 1, so x·Φ(x) − (−x)·Φ(−x) = x; the derivative of that, dx(x) + dx(−x) = dy."""
    x, run = trial.tensors["x"], trial.run()
    mirrored = trial.run({"x": -x}, upstream=run.upstream)
    (y, dy), (y_mirrored, _) = _output(run), _output(mirrored)
    yield Claim("y(x) − y(−x)", x, y - y_mirrored, size(x))
    yield Claim("dx(x) + dx(−x)", dy, run.gradients["x"] + mirrored.gradients["x"], size(dy))


@theorem(
    "residual", "dx is dy (or the norm's), and df is dx kept·scaled where f was", "residual", "post_norm", "add_norm"
)
def residual(trial: Trial) -> Iterator[Claim]:
    """All that follows sees x + m·f, m the dropout factor of this draw: dx = dL/d(sum), df = m·dx.

    For the bare sum dL/d(sum) is dy itself.
    """
    run = trial.run()
    dx, df = run.gradients["x"], run.gradients["f"]
    m = dropout_factor(trial, dx.shape)
    if trial.inputs.keys() <= {"x", "f", "draw"}:
        yield Claim("gradient of x", run.upstream["output"], dx, exact=True)
    yield Claim("gradient of f", m * dx, df, size(m, dx))


def dropout_factor(trial: Trial, shape: tuple[int, ...]) -> Host:
    """keep·s of a pair's draw: what ones become; 1 without a draw."""
    draw: Any = trial.inputs.get("draw")
    return np.asarray(dropout_forward(np.ones(shape), draw)[0])


def _table(trial: Trial) -> str:
    return "table" if "table" in trial.inputs else "weight"


@theorem("embedding-rows", "each row's gradient is the sum over the tokens that used it", "embedding", "Embedding")
def embedding_rows(trial: Trial) -> Iterator[Claim]:
    """y_n = s·table_v for every n with token_n = v. Scaling one entry table_vc by α scales these y_nc by α:

    table_vc dtable_vc = Σ_{n: token_n = v} y_nc dy_nc
    and a shift of all rows by one vector shifts every y_n by s times it: Σ_v dtable_v = s Σ_n dy_n
    """
    run, table = trial.run(), trial.tensors[_table(trial)]
    y, dy = (_rows(x) for x in _output(run))
    tokens, dtable = np.asarray(trial.inputs["tokens"]).reshape(-1), run.gradients[_table(trial)]
    by_row = np.stack([np.sum((y * dy)[tokens == v], axis=0) for v in range(len(table))])
    yield Claim("table·dtable", by_row, table * dtable, size(y, dy) * len(tokens))
    used = table[tokens]
    scale = np.sum(y * used) / np.sum(used * used)
    yield Claim("Σ_v dtable_v", scale * np.sum(dy, axis=0), np.sum(dtable, axis=0), abs(scale) * size(dy) * len(tokens))


@theorem(
    "absent-tokens", "rows of tokens that do not occur have gradient exactly 0", "embedding", "Embedding", "Transformer"
)
def absent_tokens(trial: Trial) -> Iterator[Claim]:
    """No output depends on a row that nobody looked up. (A tied table is used by the output as well.)"""
    run = trial.run()
    tables = {_table(trial): "tokens"}
    if "src_embedding.weight" in trial.parameters:
        tables = {"src_embedding.weight": "src", "tgt_embedding.weight": "tgt_in"}
    if not tables.keys() <= run.gradients.keys():
        raise DoesNotApply("the embeddings are tied, so the output projection uses every row")
    for name, tokens in tables.items():
        dtable = run.gradients[name]
        absent = np.setdiff1d(np.arange(len(dtable)), np.asarray(trial.inputs[tokens]))
        if len(absent):
            yield Claim(f"gradient of {name}, absent rows", np.zeros_like(dtable[absent]), dtable[absent], exact=True)


@theorem("positions", "dx = dy, and a learned row's gradient is the sum over the batch",
         "sinusoidal_positions", "learned_positions", "SinusoidalPositions", "LearnedPositions")  # fmt: skip
def positions(trial: Trial) -> Iterator[Claim]:
    """y = x + (what depends on the position alone): dx = dy; row p of a table was added to token p of every
    sequence, dtable_p = Σ_b dy_bp, and the other rows to none.
    """
    run = trial.run()
    _, dy = _output(run)
    yield Claim("gradient of x", dy, run.gradients["x"], exact=True)
    for name in {"table", "weight"} & run.gradients.keys():
        dtable, offset = run.gradients[name], _offset(trial)
        expected = np.zeros_like(dtable)
        expected[offset : offset + dy.shape[-2]] = np.sum(dy.reshape(-1, *dy.shape[-2:]), axis=0)
        yield Claim(f"gradient of {name}", expected, dtable, size(dy) * dy.shape[0])


@theorem("sinusoid", "y − x is sin(p/10000^(2i/C)) in column 2i and the cosine in column 2i+1",
         "sinusoidal_positions", "SinusoidalPositions")  # fmt: skip
def sinusoid(trial: Trial) -> Iterator[Claim]:
    """The definition (Vaswani et al. 2017, section 3.5), entry by entry, with a power instead of an exp."""
    x, y = trial.tensors["x"], trial.outputs()["output"]
    column = np.arange(x.shape[-1])
    angle = (_offset(trial) + np.arange(x.shape[-2]))[:, None] / 10000.0 ** (2 * (column // 2) / x.shape[-1])
    wave = np.where(column % 2 == 0, np.sin(angle), np.cos(angle))
    yield Claim("y − x", np.broadcast_to(wave, x.shape), y - x, max(1.0, size(x)))


def _offset(trial: Trial) -> int:
    given: Any = trial.inputs.get("offset", trial.options.get("offset", 0))
    return int(given)
