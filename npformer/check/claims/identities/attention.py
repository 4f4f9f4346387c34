"""Identities of softmax, of the loss that uses it, and of the attention operation.

Those of attention hold with masks, with dropout, and for queries that see nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from npformer.check.claims.identities.identity import Claim, Claims, identity, size, sum_is_0
from npformer.check.claims.invariants.probe import Probe
from npformer.check.claims.invariants.result import DoesNotApply
from npformer.functional import ALL_VISIBLE, AttentionMask
from npformer.typing import HostArray

BY_SOFTMAX = ("attention", "biased_attention", "local_attention")


@identity("softmax-rows", "each row of dx sums to 0", "softmax")
def softmax_rows(probe: Probe) -> Claims:
    """A shift of a whole row, x + α·1, cancels between numerator and denominator, so <dx, 1> = 0.

    Hidden entries take no part, and their dx is 0.
    """
    run = probe.run()
    terms = np.sum(np.abs(run.outputs["output"] * run.upstream["output"]), axis=-1)
    yield Claim("Σ dx", np.zeros(terms.shape), np.sum(run.gradients["x"], axis=-1), size(terms))


@identity("softmax-sum", "each row of y sums to 1, hidden entries and empty rows are exactly 0 and stay so", "softmax")
def softmax_sum(probe: Probe) -> Claims:
    """Weights are a distribution over the visible entries. With nothing visible there is none: y = 0, dx = 0."""
    run = probe.run()
    y, dx = run.outputs["output"], run.gradients["x"]
    mask = probe.inputs.get("visible")
    visible = np.broadcast_to(True if mask is None else np.asarray(mask), y.shape)
    yield Claim("Σ y", visible.any(axis=-1).astype(float), np.sum(y, axis=-1), 1.0)
    hidden = np.zeros(int(np.sum(~visible)))
    yield Claim("hidden y", hidden, y[~visible], exact=True)
    yield Claim("hidden dx", hidden, dx[~visible], exact=True)


@identity("softmax-logarithm", "for dy = 1/y, dx = 1 − n·y, n the number of entries that take part", "softmax")
def softmax_logarithm(probe: Probe) -> Claims:
    """dy = 1/y is the gradient of Σ_i log y_i = Σ_i (x_i − lse), whose derivative by x_i is 1 − n·y_i.

    Entries with y = 0 take no part: dy = 0 there, and dx = −n·y = 0.
    """
    y = probe.outputs()["output"]
    counts = y > 0
    run = probe.run(upstream={"output": np.where(counts, 1 / np.where(counts, y, 1.0), 0.0)})
    n = np.sum(counts, axis=-1, keepdims=True)
    yield Claim("dx", counts - n * y, run.gradients["x"], size(n.astype(float)))


@identity("cross-entropy-rows", "each row of dlogits sums to 0", "cross_entropy")
def cross_entropy_rows(probe: Probe) -> Claims:
    """Loss and smoothing depend on log-softmax alone, and a shift of a token's logits cancels there.

    Equally: dlogits = (p − q)·dloss/N, and p and q both sum to 1, smoothed or not.
    """
    yield sum_is_0("Σ_V dlogits", probe.run().gradients["logits"], axis=-1)


@identity("cross-entropy-uniform", "equal logits: the loss is log V, dlogits is (1/V − q)/N", "cross_entropy")
def cross_entropy_uniform(probe: Probe) -> Claims:
    """Equal logits give p = 1/V, so each counted token's loss is −Σ_v q_v log(1/V) = log V, whatever q is;
    so is their mean, if it is a mean over the counted tokens and q sums to 1. dlogits = dloss·(p − q)/N there.
    """
    logits, targets = probe.inputs["logits"], np.asarray(probe.inputs["targets"])
    ignored, smoothing = probe.inputs.get("ignore_index", 0), probe.inputs.get("label_smoothing", 0.0)
    counted = np.ones(targets.shape, dtype=bool) if ignored is None else targets != ignored
    classes = logits.shape[-1]
    run = probe.run({"logits": np.full(logits.shape, 0.25)}, upstream={"output": np.asarray(1.0)})
    one_hot = (targets[..., None] == np.arange(classes)).astype(float)
    q = (1 - smoothing) * one_hot + smoothing / classes
    expected = (1 / classes - q) * counted[..., None] / max(1, int(np.sum(counted)))
    yield Claim("loss", np.asarray(np.log(classes) * bool(counted.any())), run.outputs["output"], np.log(classes))
    yield Claim("dlogits", expected, run.gradients["logits"], size(expected))


class Heads(NamedTuple):
    """One run of the operation."""

    q: HostArray  # (B, H, T, D)
    k: HostArray  # (B, H, S, D)
    v: HostArray
    out: HostArray
    dout: HostArray
    dq: HostArray
    dk: HostArray
    dv: HostArray

    @property
    def scale(self) -> float:
        """The size of the terms. With saturated weights, terms are far larger than their sums."""
        terms = self.q.shape[-1] * (self.k.shape[-2] + self.q.shape[-2])
        return float(terms) * size(self.q, self.k, self.v, self.dout)


def _heads(probe: Probe) -> Heads:
    run, at = probe.run(), probe.tensors
    d = run.gradients
    return Heads(at["q"], at["k"], at["v"], run.outputs["output"], run.upstream["output"], d["q"], d["k"], d["v"])


def _product(x: HostArray, dx: HostArray) -> HostArray:
    """xᵀ dx for each head, (B, H, D, D)."""
    return np.asarray(np.swapaxes(x, -1, -2) @ dx)


@identity("attention-key-shift", "Σ_S dK = 0 for each head", *BY_SOFTMAX)
def attention_key_shift(probe: Probe) -> Claims:
    """Moving all keys by one vector c adds q·c/√D to every score of a query's row, and softmax does not see
    a shift of its row. So L is constant along it: <Σ_S dK, c> = 0 for every c. The mask hides pairs
    before and after alike, and dropout acts on weights that do not change.
    """
    h = _heads(probe)
    yield Claim("Σ_S dK", np.zeros((*h.k.shape[:2], h.k.shape[-1])), np.sum(h.dk, axis=-2), h.scale)


@identity("attention-query-key", "Qᵀ dQ = (Kᵀ dK)ᵀ for each head", *BY_SOFTMAX)
def attention_query_key(probe: Probe) -> Claims:
    """Q Kᵀ is unchanged by Q → Q M, K → K M⁻ᵀ. M = I + αA and d/dα at α = 0: <dQ, Q A> = <dK, K Aᵀ> for every A, hence

    Σ_t Q_tb dQ_ta = Σ_j K_ja dK_jb

    The trace is the symmetry of scale, <Q, dQ> = <K, dK>; the antisymmetric part that of rotation.
    """
    h = _heads(probe)
    yield Claim("Qᵀ dQ", np.swapaxes(_product(h.k, h.dk), -1, -2), _product(h.q, h.dq), h.scale)


@identity("attention-values", "Vᵀ dV = outᵀ dout for each head", *BY_SOFTMAX, "linear_attention")
def attention_values(probe: Probe) -> Claims:
    """out = P V with P free of V, so V → V M gives out → out M: <dV, V A> = <dout, out A> for every A."""
    h = _heads(probe)
    scale = size(_product(np.abs(h.out), np.abs(h.dout)))
    yield Claim("Vᵀ dV", _product(h.out, h.dout), _product(h.v, h.dv), scale)


@identity("attention-value-shift", "Σ_S dV = Σ_T r dout, r the sum of a query's weights after dropout", "attention")
def attention_value_shift(probe: Probe) -> Claims:
    """Moving all values by c moves out_t by r_t·c. Values of ones read r off the forward; r is 1 without
    dropout, 0 where a query sees nothing.
    """
    h = _heads(probe)
    r = probe.outputs({"v": np.ones_like(h.v)})["output"]
    yield Claim("Σ_S dV", np.sum(r * h.dout, axis=-2), np.sum(h.dv, axis=-2), size(r, h.dout) * h.q.shape[-2])


@identity("attention-symmetry", "keys moved by one vector, queries and keys rotated: gradients follow", "attention")
def attention_symmetry(probe: Probe) -> Claims:
    """out is unchanged by K → K + c and by Q → Q R, K → K R with R orthogonal. Differentiating both sides:

    dQ, dK, dV are the same at K + c;  at (Q R, K R) they are dQ R, dK R, dV.
    """
    h, rng = _heads(probe), probe.rng(8)
    rotation = np.linalg.qr(rng.normal(size=(h.q.shape[-1],) * 2))[0]
    same = np.eye(h.q.shape[-1])
    shifted = h.k + rng.normal(size=h.k.shape[-1])
    cases = (("at K + c", {"k": shifted}, same), ("rotated", {"q": h.q @ rotation, "k": h.k @ rotation}, rotation))
    dout = {"output": h.dout}
    for where, changed, turned in cases:
        run = probe.run(changed, upstream=dout)
        yield Claim(f"out {where}", h.out, run.outputs["output"], size(h.v) * h.k.shape[-2] * max(1, size(h.q, h.k)))
        for name, expected in (("q", h.dq @ turned), ("k", h.dk @ turned), ("v", h.dv)):
            yield Claim(f"gradient of {name} {where}", expected, run.gradients[name], h.scale * max(1, size(shifted)))


@identity(
    "attention-visible", "weights are positive on exactly the visible keys, and sum to 1, or to 0 of none", "attention"
)
def attention_visible(probe: Probe) -> Claims:
    """Values that are 1 at key j and 0 elsewhere read the weights off the forward, key by key.

    Which pairs are visible is decided here by the mask's definition, pair by pair. A visible key whose score lies some
    745 below the row's largest has weight 0 in float64, since exp underflows; these inputs must not be so extreme.
    """
    h = _heads(probe)
    no_dropout = {"draw": None} if "draw" in probe.inputs else {}
    columns = []
    for j in range(h.k.shape[-2]):
        one = np.zeros_like(h.v)
        one[..., j, :] = 1.0
        columns.append(probe.outputs(no_dropout | {"v": one})["output"][..., 0])
    weights = np.stack(columns, axis=-1)  # (B, H, T, S)
    visible = np.broadcast_to(_visible(probe, h), weights.shape)
    yield Claim("weights > 0", visible.astype(float), (weights > 0).astype(float), exact=True)
    yield Claim("Σ_S weights", visible.any(axis=-1).astype(float), np.sum(weights, axis=-1), 1.0)


@identity(
    "attention-nothing", "a query that sees nothing: output, dQ exactly 0; a key that nobody sees: dK, dV", "attention"
)
def attention_nothing(probe: Probe) -> Claims:
    """Such a query's output is 0 by definition, whatever q, k, v are; a key of weight 0 everywhere moves nothing."""
    h = _heads(probe)
    visible = _visible(probe, h)
    blind = np.broadcast_to(np.logical_not(np.any(visible, axis=3)), h.q.shape[:3])
    unseen = np.broadcast_to(np.logical_not(np.any(visible, axis=2)), h.k.shape[:3])
    if not (blind.any() or unseen.any()):
        raise DoesNotApply("every query sees a key, and every key is seen")
    for name, x, where in (("out", h.out, blind), ("dQ", h.dq, blind), ("dK", h.dk, unseen), ("dV", h.dv, unseen)):
        if where.any():
            yield Claim(name, np.zeros_like(x[where]), x[where], exact=True)


def _visible(probe: Probe, h: Heads) -> HostArray:
    """(B, 1, T, S): the pairs that may meet, by the mask that the operation is given."""
    value: Any = probe.inputs.get("mask", probe.options.get("mask", ALL_VISIBLE))
    mask = value if isinstance(value, AttentionMask) else ALL_VISIBLE
    return visible_pairs(mask, len(h.q), h.q.shape[2], h.k.shape[2])[:, None]


def visible_pairs(mask: AttentionMask, batch: int, queries: int, keys: int) -> HostArray:
    """(B, T, S): whether query i may attend to key j, decided for every pair by itself."""

    def may_meet(i: int, j: int) -> bool:
        back = i + mask.query_offset - j
        near = mask.window is not None and abs(back) < mask.window
        on_stride = mask.stride is not None and back % mask.stride == 0
        unbounded = mask.window is None and mask.stride is None
        return (near or on_stride or unbounded) and (back >= 0 or not mask.causal)

    pairs = np.array([[may_meet(i, j) for j in range(keys)] for i in range(queries)])
    by_key = np.ones((batch, keys), dtype=bool) if mask.key_visible is None else np.asarray(mask.key_visible)
    return np.asarray(pairs[None] & by_key[:, None, :])
