"""Typical mistakes in the exercises without statistics: linear, relu, gelu, softmax, dropout."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from npformer.lab.grader.mistake import Mistake, mean, rows, total
from npformer.typing import HostArray, HostArrays


def _density(x: HostArray) -> HostArray:
    return np.asarray(np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi))


def _tanh_gelu(c: Any) -> HostArrays:
    k = math.sqrt(2 / math.pi)
    t = np.tanh(k * (c.x + 0.044715 * c.x**3))
    return {"dx": c.dy * (0.5 * (1 + t) + 0.5 * c.x * (1 - t * t) * k * (1 + 3 * 0.044715 * c.x**2))}


SIMPLE: dict[str, list[Mistake]] = {
    "linear": [
        Mistake("averaged over tokens", "dweight is smaller than it should be, by as many times as there are tokens.",
                "dy is the gradient of one number, the loss. If the loss is a mean, where has the division been done?",
                "Nothing is divided here: each W_ij receives the *sum* over the tokens.",
                "dweight = x_rowsᵀ @ dy_rows, with nothing after it.",
                lambda c: {"dweight": c.dweight / len(rows(c.x))}),
        Mistake("averaged over tokens", "dbias is smaller than it should be, by as many times as there are tokens.",
                "b_j is added to every token. A sum over what it was used for, or a mean?",
                "dbias is a sum over all tokens, not their mean.", "dbias = dy_rows.sum(axis=0)",
                lambda c: {"dbias": c.dbias / len(rows(c.x))}),
        Mistake("averaged over the batch", "dweight is smaller than it should be, by the batch size.",
                "Who has divided the loss by the batch size? Where does that division already sit?",
                "A division by B too many: dy carries it already, if the loss has one.",
                "dweight = x_rowsᵀ @ dy_rows, with nothing after it.",
                lambda c: {"dweight": c.dweight / c.x.shape[0]}),
        Mistake("axes not summed", "dbias still has an axis for the tokens.",
                "Which axes does y have that b does not? What happens to them on the way back?",
                "b was broadcast over *all* axes but the last; the gradient is summed over all of them, T too.",
                "Make dy a matrix (N, C_out) first: dy.reshape(-1, dy.shape[-1]), then sum over its axis 0.",
                lambda c: {"dbias": c.dy.sum(axis=0)}),
        Mistake("missing transpose", "dx has the right shape where weight is square, and other numbers.",
                "In y_nj = Σ_i x_ni W_ij the sum runs over i. Over which index does it run in dx_ni?",
                "weight needs a transpose: dx sums over the outputs j.", "dx = dy @ weight.T",
                lambda c: {"dx": c.dy @ c.weight} if c.weight.shape[0] == c.weight.shape[1] else {}),
    ],
    "relu": [
        Mistake("gate from dy", "dx is 0 wherever dy is negative, whatever x was.",
                "Who opened and shut the gate: what came in through the forward, or what comes back?",
                "The gate is set by x, not by the sign of dy. It has to be in the cache.",
                "np.where(x > 0, dy, 0.0)", lambda c: {"dx": np.where(c.dy > 0, c.dy, 0.0)}),
        Mistake("gate left out", "dx is dy, everywhere.",
                "If x_i is negative and moves a little, does y_i move?",
                "Where the gate was shut the gradient is 0.", "np.where(x > 0, dy, 0.0)", lambda c: {"dx": c.dy}),
        Mistake("dy left out", "dx does not depend on dy: it is 0 or 1.",
                "What you have is the slope. What does the chain rule do with it?",
                "The slope is multiplied by the incoming gradient dy.", "slope * dy",
                lambda c: {"dx": (c.x > 0).astype(float)}),
        Mistake("multiplied by y", "dx is dy times y.", "What is the slope of y = x? Is it x?",
                "Where the gate is open the slope is 1, not x.", "np.where(x > 0, dy, 0.0)",
                lambda c: {"dx": c.dy * c.y}),
    ],
    "gelu": [
        Mistake("product rule", "dx is the first of two terms.",
                "x stands twice in x·Φ(x). What does the product rule say?",
                "The term in which Φ is differentiated is missing: its derivative is the density φ.",
                "dy * (phi_below + x * φ(x))", lambda c: {"dx": c.dy * c.cache[1]}),
        Mistake("derivative of the tanh form", "dx is right to two or three digits.",
                "Of which function is this the derivative? Compare it with the forward, symbol by symbol.",
                "This is the derivative of the approximation with tanh; the forward here uses erf.",
                "dy * (phi_below + x * exp(−x²/2)/√(2π))", _tanh_gelu),
        Mistake("density without its constant", "dx is right at x = 0 alone.",
                "The density of a normal variable has the integral 1. Has yours?",
                "The density lacks its factor 1/√(2π).", "φ = np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)",
                lambda c: {"dx": c.dy * (c.cache[1] + c.x * np.exp(-0.5 * c.x**2))}),
        Mistake("x left out", "The second term is there, without a factor.",
                "In (x·Φ)' = Φ + ?·Φ': what stands at the question mark?", "The density is to be multiplied by x.",
                "phi_below + x * φ", lambda c: {"dx": c.dy * (c.cache[1] + _density(c.x))}),
        Mistake("dy left out", "dx does not depend on dy.", "What does the chain rule do with the slope?",
                "The slope is multiplied by the incoming gradient dy.", "dy * slope",
                lambda c: {"dx": c.cache[1] + c.x * _density(c.x)}),
    ],
    "softmax": [
        Mistake("shared term missing", "The rows of dx do not add up to 0, yet adding one number to a whole row of x "
                "changes no y.",
                "If x_i grows, y_i is not the only output that moves. What happens to the other y of its row?",
                "The term from i ≠ j is missing: a sum over the row, shared by all its entries.",
                "y * (dy - s), where s = Σ dy·y over the row, keepdims=True", lambda c: {"dx": c.y * c.dy}),
        Mistake("diagonal alone", "The rows of dx do not add up to 0, yet adding one number to a whole row of x "
                "changes no y.",
                "y(1 − y) is how y_i moves with x_i. How does y_j move with x_i, for j ≠ i?",
                "Only the diagonal of the Jacobian is there; the entries −y_i y_j are missing.",
                "Σ_j dy_j y_j (I_ij − y_i) = y_i (dy_i − Σ_j dy_j y_j)",
                lambda c: {"dx": c.y * (1 - c.y) * c.dy}),
        Mistake("sum over the wrong axis", "dx mixes numbers of different rows.",
                "Each row is a softmax of its own. Over which axis did the forward sum?",
                "The shared sum runs over the wrong axis: it belongs to the last, as in the forward.",
                "np.sum(dy * y, axis=-1, keepdims=True)",
                lambda c: {"dx": c.y * (c.dy - total(c.dy * c.y, 0))}),
        Mistake("sum over the wrong axis", "dx mixes numbers of different rows.",
                "Each row is a softmax of its own. Over which axis did the forward sum?",
                "The shared sum runs over the last axis but one: it belongs to the last, as in the forward.",
                "np.sum(dy * y, axis=-1, keepdims=True)",
                lambda c: {"dx": c.y * (c.dy - total(c.dy * c.y, -2))}),
        Mistake("sum over everything", "dx mixes numbers of different rows.",
                "Each row is a softmax of its own. How many sums should there be?",
                "The shared sum was taken over the whole array; each row needs its own.",
                "np.sum(dy * y, axis=-1, keepdims=True)", lambda c: {"dx": c.y * (c.dy - np.sum(c.dy * c.y))}),
        Mistake("divided by batch", "dx is smaller than it should be, by the length of the first axis.",
                "Does the forward divide by the size of the batch? Then who does, and where?",
                "A division by B (the first axis) too many. Means are taken in the loss, once.",
                "y * (dy - s), with nothing after it.", lambda c: {"dx": c.dx / c.x.shape[0]}),
        Mistake("mean for sum", "The rows of dx do not add up to 0, yet adding one number to a whole row of x "
                "changes no y.",
                "Write Σ_j dy_j·∂y_j/∂x_i in full. Is anything divided by the length of the row?",
                "The shared term is a sum over the row, not a mean.", "np.sum(dy * y, axis=-1, keepdims=True)",
                lambda c: {"dx": c.y * (c.dy - mean(c.dy * c.y))}),
        Mistake("sum without weights", "The rows of dx do not add up to 0, yet adding one number to a whole row of x "
                "changes no y.",
                "In Σ_j dy_j·∂y_j/∂x_i, with what is each dy_j weighted?",
                "The shared sum lacks the weights y: it is Σ dy·y, not Σ dy.",
                "np.sum(dy * y, axis=-1, keepdims=True)", lambda c: {"dx": c.y * (c.dy - total(c.dy, -1))}),
    ],
    "dropout": [
        Mistake("scale left out", "dx is smaller than it should be by one factor, 1/s.",
                "An entry that was kept: by what was it multiplied on the way forward?",
                "The factor scale belongs in the backward too.", "np.where(keep, dy * scale, 0.0)",
                lambda c: {"dx": c.dy if c.keep is None else np.where(c.keep, c.dy, 0.0)}),
        Mistake("mask left out", "dx is not 0 where x was dropped.",
                "An entry that was dropped: does y move when it moves?", "The mask keep belongs in the backward too.",
                "np.where(keep, dy * scale, 0.0)",
                lambda c: {"dx": c.dy if c.keep is None else c.dy * c.scale}),
        Mistake("dropout left out", "dx is dy, everywhere.", "What happened to each number on the way forward?",
                "Both keep and scale are missing: the backward does to dy what the forward did to x.",
                "np.where(keep, dy * scale, 0.0)", lambda c: {"dx": c.dy}),
        Mistake("divided by scale", "Where x was kept, dx is too small by the square of s.",
                "y = s·x: is dy/dx = s, or 1/s?", "Multiply by scale; do not undo it.",
                "np.where(keep, dy * scale, 0.0)",
                lambda c: {"dx": c.dy if c.keep is None else np.where(c.keep, c.dy / c.scale, 0.0)}),
    ],
}  # fmt: skip
