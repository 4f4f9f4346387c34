"""Symmetries of parameters: transformations of matrices that do not change the output.

They hold anywhere in a network, for any loss and with masks: later layers see the same values, so the loss does not
change. What else each needs:

    query-key, key-bias    softmax of q·k with nothing between: no rotation, no feature map. Dropout may be on
    value-output           any weights that do not depend on V. Dropout may be on
    value-bias             weights that sum to 1: no dropout, and no query that sees nothing
    relu-units             ReLU. Dropout may be on
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from npformer.check.claims.identities.attention import visible_pairs
from npformer.check.claims.identities.identity import Claim, Claims, identity, parts, size
from npformer.check.claims.invariants.probe import Probe, governed
from npformer.check.claims.invariants.result import DoesNotApply
from npformer.typing import HostArray, Tensors


def _attentions(probe: Probe) -> Iterator[tuple[str, int]]:
    """(prefix, H) of every multi-head attention in the target."""
    for prefix, layer in parts(probe.target):
        if hasattr(layer, "num_heads") and f"{prefix}query.weight" in probe.parameters:
            yield prefix, layer.num_heads


def _by_scores(probe: Probe) -> Iterator[tuple[str, int]]:
    """The attentions whose weights are softmax(q·k), without a rotation and without a feature map."""
    by_prefix, is_any = dict(parts(probe.target)), False
    for prefix, num_heads in _attentions(probe):
        layer = by_prefix[prefix]
        turned = getattr(layer, "rotation", None) is not None
        if not turned and type(getattr(layer, "mechanism", None)).__name__ != "LinearAttention":
            is_any = True
            yield prefix, num_heads
    if not is_any:
        raise DoesNotApply("its queries and keys are turned, or go through a feature map, before they meet")


def _blind(probe: Probe, x: HostArray) -> Iterator[HostArray]:
    """For each mask, (B, T): which queries, the tokens of x (B, T, C), see no key. Local attention narrows the mask."""
    mechanism = getattr(probe.target, "mechanism", None)
    window, stride = (getattr(mechanism, name, None) for name in ("window", "stride"))
    for one in governed(probe):
        local = window is not None or stride is not None
        mask = replace(one.mask, window=window, stride=stride) if local else one.mask
        visible = visible_pairs(mask, x.shape[0], x.shape[1], probe.inputs[one.inputs[0]].shape[-2])
        yield np.logical_not(np.any(visible, axis=2))


def _by_head(x: HostArray, num_heads: int) -> HostArray:
    """Columns of a matrix (C, C) as (H, C, D); of a bias (C,) as (H, 1, D)."""
    return np.swapaxes(np.atleast_2d(x).reshape(-1, num_heads, x.shape[-1] // num_heads), 0, 1)


def _moment(at: Tensors, gradients: Tensors, name: str, num_heads: int) -> tuple[HostArray, float]:
    """Wᵀ dW + b ⊗ db of one projection, (H, D, D), and the size of its terms."""
    total, terms = np.zeros(()), np.zeros(())
    for part in ("weight", "bias"):
        x, dx = (_by_head(tensors[f"{name}.{part}"], num_heads) for tensors in (at, gradients))
        total = total + np.swapaxes(x, 1, 2) @ dx
        terms = terms + np.swapaxes(np.abs(x), 1, 2) @ np.abs(dx)
    return total, size(terms)


@identity("heads-query-key", "W_qᵀ dW_q + b_q ⊗ db_q = (W_kᵀ dW_k + b_k ⊗ db_k)ᵀ for each head",
         "MultiHeadAttention", inside=True)  # fmt: skip
def heads_query_key(probe: Probe) -> Claims:
    """q·k is unchanged by q → q M, k → k M⁻ᵀ, and q = x W_q + b_q follows if W_q and b_q do. With M = I + αA, d/dα at
    α = 0 is

    <dW_q, W_q A> + <db_q, b_q A> = <dW_k, W_k Aᵀ> + <db_k, b_k Aᵀ>      for every (D, D) matrix A

    The biases belong in: they move with their columns. The trace is <W_q, dW_q> + <b_q, db_q> =
    <W_k, dW_k> + <b_k, db_k>.
    """
    run, at = probe.run(), probe.tensors
    for prefix, num_heads in _by_scores(probe):
        query, scale = _moment(at, run.gradients, f"{prefix}query", num_heads)
        key, key_scale = _moment(at, run.gradients, f"{prefix}key", num_heads)
        yield Claim(f"{prefix}query", np.swapaxes(key, 1, 2), query, max(scale, key_scale))


@identity("heads-value-output", "W_vᵀ dW_v + b_v ⊗ db_v = dW_o W_oᵀ for each head", "MultiHeadAttention", inside=True)
def heads_value_output(probe: Probe) -> Claims:
    """A head adds P V W_o to the output, W_o its rows (D, C). V → V M, W_o → M⁻¹ W_o leaves that as it is:

    <dW_v, W_v A> + <db_v, b_v A> = <dW_o, A W_o>      for every (D, D) matrix A

    P, the weights after dropout, does not depend on V.
    """
    run, at = probe.run(), probe.tensors
    for prefix, num_heads in _attentions(probe):
        value, scale = _moment(at, run.gradients, f"{prefix}value", num_heads)
        w, dw = (tensors[f"{prefix}output.weight"] for tensors in (at, run.gradients))
        w, dw = (x.reshape(num_heads, -1, x.shape[-1]) for x in (w, dw))  # (H, D, C)
        yield Claim(f"{prefix}value", dw @ np.swapaxes(w, 1, 2), value, scale)


@identity("key-bias", "the key bias has gradient 0", "MultiHeadAttention", inside=True)
def key_bias(probe: Probe) -> Claims:
    """b_k moves all keys of a head by one vector, which adds q·b_k/√D to a query's whole row of scores.

    Softmax does not see that, so neither does L.
    """
    run = probe.run()
    for prefix, _ in _by_scores(probe):
        db = run.gradients[f"{prefix}key.bias"]
        weights = [run.gradients[f"{prefix}{name}.weight"] for name in ("query", "key", "value")]
        yield Claim(f"{prefix}key.bias", np.zeros_like(db), db, max(map(size, weights)))


@identity(
    "value-bias",
    "db_v = W_o db_o, if nothing is dropped and every query sees a key",
    "MultiHeadAttention",
    "Transformer",
    "Encoder",
    "Decoder",
)
def value_bias(probe: Probe) -> Claims:
    """Weights that sum to 1 carry b_v through: y holds b_v W_o + b_o. So b_v → b_v + c, b_o → b_o − c W_o
    changes nothing: <db_v, c> = <db_o, c W_o> for every c.
    """
    changed, options = probe.without_dropout()
    _expect_sight(probe)
    run, at = probe.run(changed, options=options), probe.tensors
    for prefix, _ in _attentions(probe):
        db_v, db_o, w_o = (
            run.gradients[f"{prefix}value.bias"],
            run.gradients[f"{prefix}output.bias"],
            at[f"{prefix}output.weight"],
        )
        yield Claim(f"{prefix}value.bias", w_o @ db_o, db_v, size(np.abs(w_o) @ np.abs(db_o)))


def _expect_sight(probe: Probe) -> None:
    """Raise DoesNotApply if some query sees no key."""
    if hasattr(probe.target, "attention_weights"):
        probe.reset()
        weights = probe.target.attention_weights(*probe.placed())
        blind = any(np.any(np.asarray(probe.device.host(w)).sum(axis=-1) == 0) for w in weights.values())
    else:
        x = probe.inputs[probe.float_inputs[0]]
        blind = any(at.any() for at in _blind(probe, x))
    if blind:
        raise DoesNotApply("some query sees no key")


@identity("nothing-visible", "where a query sees nothing, y is the output bias", "MultiHeadAttention")
def nothing_visible(probe: Probe) -> Claims:
    """Such a query's heads are 0 by definition, so y = 0·W_o + b_o, exactly: padding is not attended to uniformly."""
    y, bias = probe.outputs()["output"], probe.tensors["output.bias"]
    for blind in _blind(probe, y):
        if blind.any():
            yield Claim("y of blind queries", np.broadcast_to(bias, y[blind].shape), y[blind], exact=True)


@identity("relu-units", "Σ_i W1_if dW1_if + b1_f db1_f = Σ_j W2_fj dW2_fj for each hidden unit f",
         "feed_forward", "FeedForward", inside=True)  # fmt: skip
def relu_units(probe: Probe) -> Claims:
    """ReLU(αh) = α·ReLU(h) for α > 0, so W1_·f, b1_f → α·, W2_f· → ·/α changes nothing, dropout between or not.

    d/dα at α = 1 gives the claim. GELU has no such symmetry.
    """
    run, at = probe.run(), probe.tensors
    for where, (w1, b1, w2) in _relu_layers(probe).items():
        got = np.sum(at[w1] * run.gradients[w1], axis=0) + at[b1] * run.gradients[b1]
        terms = at[w2] * run.gradients[w2]
        scale = size(np.sum(np.abs(at[w1] * run.gradients[w1]), axis=0))
        yield Claim(where, np.sum(terms, axis=1), got, max(scale, size(np.sum(np.abs(terms), axis=1))))


def _relu_layers(probe: Probe) -> dict[str, tuple[str, str, str]]:
    """The names of (w1, b1, w2) of every feed-forward with ReLU. Raises DoesNotApply if there is none."""
    if probe.is_pair:
        layers = {"hidden units": ("w1", "b1", "w2")} if probe.inputs.get("activation") == "relu" else {}
    else:
        layers = {
            f"{prefix}hidden units": (f"{prefix}up.weight", f"{prefix}up.bias", f"{prefix}down.weight")
            for prefix, layer in parts(probe.target)
            if getattr(layer, "activation", None) == "relu" and f"{prefix}up.weight" in probe.parameters
        }
    if not layers:
        raise DoesNotApply("its activation is not ReLU")
    return layers
