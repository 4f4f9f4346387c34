"""Identities of the wiring of layers: relations between a parameter's gradient and those of the layers that read it.

Each is a symmetry across layers, so it fails if a path is missing, counted twice or cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from npformer.check.claims.identities.attention import visible_pairs
from npformer.check.claims.identities.identity import Claim, Claims, identity, parts, size, sum_is_0
from npformer.check.claims.invariants.probe import Probe, pad_id_of
from npformer.check.claims.invariants.result import DoesNotApply
from npformer.functional import AttentionMask

LAYERS = ("EncoderLayer", "DecoderLayer")
MODELS = ("Transformer", "Encoder", "Decoder")
ALL = (*LAYERS, "EncoderStack", "DecoderStack", *MODELS)
QKV = ("self_attention.query", "self_attention.key", "self_attention.value")


@identity("norm-readers", "dβ = Σ W db and γ·dγ + β·dβ = Σ W·dW over the matrices that alone read a norm", *ALL)
def norm_readers(probe: Probe) -> Claims:
    """If x̃ = γ·x̂ + β is read by x̃ W + b and by nothing else, then two moves change nothing:

    β → β + c, b → b − c W for every reader:             dβ_c = Σ_readers Σ_j W_cj db_j
    γ_c, β_c → α·, row c of every reader's W → ·/α:       γ_c dγ_c + β_c dβ_c = Σ_readers Σ_j W_cj dW_cj

    Readers: in pre-LN the sub-layer after each norm; of the encoder's last norm the key and value
    projections of every decoder layer; of the decoder's the generator. So it sees a cross-attention
    whose gradient is not summed over the layers.
    """
    run, at = probe.run(), probe.tensors
    readers = _readers(probe)
    if not readers:
        raise DoesNotApply("no norm is read by matrices alone: in post-LN the residual sum reads it as well")
    for norm, names in readers.items():
        gamma, beta = at[f"{norm}.gamma"], at[f"{norm}.beta"]
        dgamma, dbeta = run.gradients[f"{norm}.gamma"], run.gradients[f"{norm}.beta"]
        by_bias = [(at[f"{name}.weight"], run.gradients[f"{name}.bias"]) for name in names]
        scale = max(size(np.abs(w) @ np.abs(db)) for w, db in by_bias)
        yield Claim(f"gradient of {norm}.beta", sum(w @ db for w, db in by_bias), dbeta, scale)
        pairs = [(at[f"{name}.weight"], run.gradients[f"{name}.weight"]) for name in names]
        scale = max(size(np.sum(np.abs(w * dw), axis=1)) for w, dw in pairs)
        expected = sum(np.sum(w * dw, axis=1) for w, dw in pairs)
        yield Claim(f"γ·dγ + β·dβ of {norm}", expected, gamma * dgamma + beta * dbeta, scale)


def _readers(probe: Probe) -> dict[str, list[str]]:
    """Norm -> the linear maps that read it, for norms that only linear maps read."""
    readers: dict[str, list[str]] = {}
    for prefix, layer in parts(probe.target):
        if getattr(layer, "norm_order", "") != "pre":
            continue
        second = "cross_attention.query" if hasattr(layer, "cross_attention") else "feed_forward.up"
        readers[f"{prefix}norm1"] = [prefix + name for name in QKV]
        readers[f"{prefix}norm2"] = [prefix + second]
        if hasattr(layer, "norm3"):
            readers[f"{prefix}norm3"] = [f"{prefix}feed_forward.up"]
    return readers | _last_norms(probe.target)


def _last_norms(model: Any) -> dict[str, list[str]]:
    """A Transformer's last norm on either side: the stack's own, or in post-LN its last layer's."""
    readers: dict[str, list[str]] = {}
    if not (hasattr(model, "encoder") and hasattr(model, "decoder")):
        return readers
    names = {}
    for side, inner in (("encoder", "norm2"), ("decoder", "norm3")):
        stack = getattr(model, side)
        last = len(stack.layers) - 1
        if stack.norm is not None:
            names[side] = f"{side}.norm"
        elif stack.layers[last].norm_order == "post":
            names[side] = f"{side}.layers.{last}.{inner}"
    if "encoder" in names:
        layers = range(len(model.decoder.layers))
        readers[names["encoder"]] = [
            f"decoder.layers.{i}.cross_attention.{x}" for i in layers for x in ("key", "value")
        ]
    if "decoder" in names and not model.config.tie_embeddings:  # a tied W has other uses than this
        readers[names["decoder"]] = ["generator"]
    return readers


@identity("stream-shift", "what is written into a stream that norms read: Σ_C of its gradient is 0", *ALL)
def stream_shift(probe: Probe) -> Claims:
    """A norm does not see t·1 added to its input. In post-LN each sub-layer's output goes into a norm at once;
    in pre-LN into the stream, which only norms read, the last one at its end. So for the last matrix
    and bias of every sub-layer, Σ_c db_c = 0 and Σ_c dW_ic = 0, as long as nothing is dropped on the way.
    In pre-LN with a norm at the end the same is true of the rows of embedding and position tables.
    """
    changed, options = probe.without_dropout()
    run, names = probe.run(changed, options=options), list(_writers(probe))
    if not names:
        raise DoesNotApply("its stream is handed on without a norm at its end")
    for name in names:
        yield sum_is_0(f"Σ_C of the gradient of {name}", run.gradients[name], axis=-1)


def _writers(probe: Probe) -> Iterator[str]:
    """Parameters whose last axis is added to a stream that ends in a norm."""
    all_parts = dict(parts(probe.target))
    closed = [prefix for prefix, part in all_parts.items() if hasattr(part, "layers") and part.norm is not None]
    for prefix, layer in all_parts.items():
        order = getattr(layer, "norm_order", "")
        if hasattr(getattr(layer, "norm1", None), "running_mean"):  # a norm over the batch sees a shift of one token
            continue
        if order == "post" or (order == "pre" and any(prefix.startswith(start) for start in closed)):
            for writer in ("self_attention.output", "cross_attention.output", "feed_forward.down"):
                if f"{prefix}{writer}.weight" in probe.parameters:
                    yield from (f"{prefix}{writer}.weight", f"{prefix}{writer}.bias")
    config = getattr(probe.target, "config", None)
    stacks = [part for part in all_parts.values() if hasattr(part, "layers")]
    if config is None or getattr(config, "norm", "layer") != "layer" or config.tie_embeddings:
        return
    if config.norm_order == "pre" and len(closed) == len(stacks):
        yield from (name for name in probe.parameters if name.endswith(("embedding.weight", "positions.weight")))


@identity("embedding-positions", "Σ_v dE_v = scale·Σ_p dP_p: token and position tables meet in one sum", *MODELS)
def embedding_positions(probe: Probe) -> Claims:
    """x = scale·E[token] + P[position]. E_v → E_v + c for all v, P_p → P_p − scale·c for all p changes nothing."""
    sides = [name.removesuffix("positions.weight") for name in probe.parameters if name.endswith("positions.weight")]
    if not sides or getattr(probe.target.config, "tie_embeddings", False):
        raise DoesNotApply("it has no learned positions, or its embeddings are tied")
    run = probe.run()
    for side in sides:
        scale = getattr(probe.target, f"{side}embedding").scale
        rows = run.gradients[f"{side}positions.weight"]
        got = np.sum(run.gradients[f"{side}embedding.weight"], axis=0)
        yield Claim(f"Σ of {side}embedding", scale * np.sum(rows, axis=0), got, scale * size(rows) * len(rows))


@identity("who-sees-whom", "weights are positive on exactly the pairs that are meant to meet", *MODELS)
def who_sees_whom(probe: Probe) -> Claims:
    """Encoder: real source tokens. Decoder on itself: real tokens, not later ones. Decoder on the encoder:

    real source tokens. The pairs are counted one by one from the token ids (Vaswani et al. 2017, section 3.2.3).
    Of a sequence to itself, the window and the stride of local attention hide more.
    """
    pad, config = pad_id_of(probe.target), probe.target.config
    probe.reset()
    src, *rest = (np.asarray(x) for x in probe.inputs.values())
    tgt = rest[0] if rest else src
    by_attention = probe.target.attention_weights(*probe.placed())
    for name, weights in by_attention.items():
        w = np.asarray(probe.device.host(weights))
        itself = "cross" not in name
        keys = tgt if itself and name.startswith("decoder") else src
        queries = src if name.startswith("encoder") else tgt
        mask = AttentionMask(keys != pad, causal=itself and name.startswith("decoder"))
        if itself:
            mask = replace(mask, window=getattr(config, "window", None), stride=getattr(config, "stride", None))
        visible = visible_pairs(mask, queries.shape[0], queries.shape[1], keys.shape[1])[:, None]
        expected = np.repeat(visible.astype(float), w.shape[1], axis=1)  # (B, H, T, S)
        yield Claim(name, expected, np.greater(w, 0).astype(float), exact=True)
