"""Identities of softmax and of the loss that uses it."""

from __future__ import annotations

import numpy as np

from npformer.proof.identities.identity import Claim, Claims, identity, size
from npformer.proof.invariants.probe import Probe


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
    given = probe.inputs.get("visible")
    visible = np.broadcast_to(True if given is None else np.asarray(given), y.shape)
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
    run = probe.run()
    dlogits = run.gradients["logits"]
    terms = np.sum(np.abs(dlogits), axis=-1)
    yield Claim("Σ_V dlogits", np.zeros(terms.shape), np.sum(dlogits, axis=-1), size(terms))


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
