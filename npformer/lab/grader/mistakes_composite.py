"""Typical mistakes in composite exercises: attention, residual sums, whole layers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from npformer.lab.grader.mistake import Mistake
from npformer.lab.grader.parts.operations import (
    attention_backward,
    dropout_backward,
    layer_norm_backward,
    linear_backward,
    linear_forward,
    merge_heads,
    split_heads,
)
from npformer.typing import HostArray, HostArrays


def _drop(c: Any, x: HostArray) -> Any:
    """x through the dropout of the problem."""
    return dropout_backward(x, (True, 1.0) if c.keep is None else (c.keep, c.scale))


def _through_norm(c: Any, dy: HostArray) -> Any:
    """dy back through the layer norm of x + Drop(f)."""
    return layer_norm_backward(dy, c.cache[1])[0]


def _dweights(c: Any) -> Any:
    """The gradient of the weights of an attention problem."""
    return _drop(c, c.dout @ np.matrix_transpose(c.v))


def _from_scores(c: Any, dscores: HostArray) -> HostArrays:
    scale = 1 / math.sqrt(c.q.shape[-1])
    return {"dq": dscores @ c.k * scale, "dk": np.matrix_transpose(dscores) @ c.q * scale}


def _times_root(c: Any, power: int) -> HostArrays:
    factor = math.sqrt(c.q.shape[-1]) ** power
    return {"dq": c.dq * factor, "dk": c.dk * factor}


def _ff_down(c: Any, dh: HostArray) -> HostArrays:
    dx, dw1, db1 = linear_backward(dh, c.cache[0])
    return {"dx": dx, "dw1": dw1, "db1": db1}


def _ff_gate_from_gradient(c: Any) -> HostArrays:
    da = _drop(c, c.dy @ c.w2.T)
    return _ff_down(c, np.where(da > 0, da, 0.0))


def _back_to_heads(c: Any) -> Any:
    """The gradients of the heads' queries, keys and values."""
    dmerged = linear_backward(c.dy, c.cache[4])[0]
    return attention_backward(split_heads(dmerged, c.num_heads), c.cache[3])


def _heads_reshaped(c: Any) -> HostArrays:
    """The gradients of the heads merged by a reshape alone."""
    dx, dwq, dbq = linear_backward(_back_to_heads(c)[0].reshape(c.x.shape), c.cache[0])
    return {"dx": dx, "dparams.wq": dwq, "dparams.bq": dbq}


def _only(c: Any, letter: str) -> HostArrays:
    """dmemory from the keys ("k") or the values ("v") alone."""
    _, dk, dv = _back_to_heads(c)
    return {"dmemory": merge_heads(dk if letter == "k" else dv) @ c.params[f"w{letter}"].T}


_DROPPED = "np.where(keep, … * scale, 0.0), or dropout_backward(…, dropout_cache)"

COMPOSITE: dict[str, list[Mistake]] = {
    "residual": [
        Mistake("stream cut off", "dx is 0.", "y = x + something. If x moves by 1, by how much does y move?",
                "dx is missing: the sum hands dy on to x, unchanged.", "return dy, df", lambda c: {"dx": 0 * c.dy}),
        Mistake("dropout on the stream", "dx has been through dropout too.",
                "Which of the two terms went through dropout in the forward?",
                "Only f was dropped; x was not. dx is dy, untouched.", "return dy, df",
                lambda c: {"dx": _drop(c, c.dy)}),
        Mistake("dropout left out", "df is dy.", "What happened to f before it was added?",
                "df must go back through the dropout.", _DROPPED, lambda c: {"df": c.dy}),
        Mistake("scale left out", "df is too small by one factor, 1/s.", "By what was f multiplied where it was kept?",
                "The factor scale is missing in df.", _DROPPED,
                lambda c: {"df": c.dy if c.keep is None else np.where(c.keep, c.dy, 0.0)}),
    ],
    "post_norm": [
        Mistake("routed past the norm", "dx is dy: as if x had not been normalised.",
                "y = LayerNorm(x + …): does x reach y by any way that avoids the norm?",
                "That would be pre-LN. Here the whole sum, x included, goes through the norm, and so does dx.",
                "dtotal, … = layer_norm_backward(dy, …); dx, df = residual_backward(dtotal, …)",
                lambda c: {"dx": c.dy}),
        Mistake("added past the norm", "dx is what it should be, plus dy.",
                "y = LayerNorm(x + …): does x reach y by any way that avoids the norm?",
                "There is no stream past the norm in post-LN: dy itself is not part of dx.",
                "dx, df = residual_backward(dtotal, …)", lambda c: {"dx": c.dx + c.dy}),
        Mistake("dropout left out", "df is dx.", "What happened to f before it was added?",
                "df must go back through the dropout.", _DROPPED, lambda c: {"df": c.dx}),
        Mistake("norm left out", "df is as if there were no norm.",
                "Undo the last line of the forward first. Which is it?",
                "The gradient goes through the norm before it reaches the sum.",
                "residual_backward(dtotal, …), not residual_backward(dy, …)", lambda c: {"df": _drop(c, c.dy)}),
    ],
    "add_norm": [
        Mistake("stream cut off", "dx lacks what came in for the first output.",
                "total is used twice: where? What comes back from each use?",
                "dtotal, the gradient of the first output, is missing.", "residual_backward(dtotal + through_norm, …)",
                lambda c: {"dx": _through_norm(c, c.dnormed), "df": _drop(c, _through_norm(c, c.dnormed))}),
        Mistake("norm's share left out", "dx does not depend on dnormed.",
                "total is used twice: where? What comes back from each use?",
                "What comes back through the norm is missing.", "residual_backward(dtotal + through_norm, …)",
                lambda c: {"dx": c.dtotal, "df": _drop(c, c.dtotal)}),
        Mistake("both through the norm", "dx is as if dtotal had come in after the norm.",
                "Does the first output pass the norm?",
                "Only dnormed goes back through the norm; dtotal is added after.",
                "through_norm, … = layer_norm_backward(dnormed, …)",
                lambda c: {"dx": _through_norm(c, c.dtotal + c.dnormed)}),
        Mistake("dropout left out", "df is dx.", "What happened to f before it was added?",
                "df must go back through the dropout.", _DROPPED, lambda c: {"df": c.dx}),
    ],
    "feed_forward": [
        Mistake("gate from the gradient", "dw1 is wrong where the signs of h and of its gradient differ.",
                "Who sets the gate of the ReLU: what went in, or what comes back?",
                "The gate is set by h of the forward, not by the sign of the gradient.",
                "dh = relu_backward(da, active_cache)", _ff_gate_from_gradient),
        Mistake("activation left out", "dw1 is as if there were no ReLU.",
                "The forward has four lines. Which of them has no counterpart in your backward?",
                "The ReLU is missing on the way back.", "dh = relu_backward(da, active_cache)",
                lambda c: _ff_down(c, _drop(c, c.dy @ c.w2.T))),
        Mistake("dropout left out", "dw1 is right without dropout and wrong with it.",
                "The forward has four lines. Which of them has no counterpart in your backward?",
                "The dropout is missing on the way back.", "da = dropout_backward(ddropped, dropout_cache)",
                lambda c: _ff_down(c, np.where(c.cache[1], c.dy @ c.w2.T, 0.0))),
        Mistake("input of the wrong line", "dw2 is as if W₂ had met another array than it did.",
                "Which array did W₂ meet in the forward, to the letter?",
                "W₂ met what came out of the dropout, not what went into the ReLU.",
                "linear_backward(dy, down_cache) knows it.",
                lambda c: {"dw2": linear_backward(c.dy, (linear_forward(c.x, c.w1, c.b1)[0], c.w2))[1]}),
    ],
    "attention": [
        Mistake("scale left out", "It is too large by √D.", "What did the forward do to Q Kᵀ before the softmax?",
                "The factor 1/√D is missing: it stands once in the forward, and once in each of dq and dk.",
                "dq = dscores @ k * scale", lambda c: _times_root(c, 1)),
        Mistake("scale twice", "It is too small by √D.",
                "How often does 1/√D stand in the forward, on the way from q to out?",
                "The factor 1/√D is applied twice; once will do.", "dq = dscores @ k * scale",
                lambda c: _times_root(c, -1)),
        Mistake("softmax left out", "dq is as if the weights were the scores.",
                "Three lines: scores, weights, out. Which has no counterpart in your backward?",
                "The softmax is missing on the way back, between dweights and dscores.",
                "dscores = softmax_backward(dweights, softmax_cache)", lambda c: _from_scores(c, _dweights(c))),
        Mistake("shared term of the softmax missing", "It is as if each weight depended on its own score alone.",
                "If one score of a row grows, what becomes of the other weights?",
                "The softmax's backward lacks its shared term, Σ_S dweights·weights.",
                "dscores = weights * (dweights - sum(dweights * weights, axis=-1, keepdims=True))",
                lambda c: _from_scores(c, c.cache[3] * _dweights(c))),
        Mistake("weights before dropout", "dv is right without dropout and wrong with it.",
                "Which array did V meet in the forward, to the letter?",
                "V met the weights after dropout, not those before it.", "dv = np.matrix_transpose(dropped) @ dout",
                lambda c: {"dv": np.matrix_transpose(c.cache[3]) @ c.dout}),
    ],
    "multi_head_attention": [
        Mistake("heads merged without moving their axis", "dx has the right shape, its numbers are shuffled.",
                "What did split_heads do in two steps? Undo both, the last first.",
                "A reshape alone mixes tokens with heads: the head axis has to move back first.",
                "merge_heads(dq)", _heads_reshaped),
        Mistake("keys' share left out", "dmemory lacks one of two terms.",
                "How often is the memory used in the forward?",
                "The memory made the values and the keys; the keys' share is missing.", "dmemory_k + dmemory_v",
                lambda c: _only(c, "v")),
        Mistake("values' share left out", "dmemory lacks one of two terms.",
                "How often is the memory used in the forward?",
                "The memory made the keys and the values; the values' share is missing.", "dmemory_k + dmemory_v",
                lambda c: _only(c, "k")),
    ],
}  # fmt: skip
