"""Typical mistakes with tables, statistics and the loss: the exercises from embedding to cross-entropy."""

from __future__ import annotations

from typing import Any

import numpy as np

from npformer.lab.grader.mistake import Mistake, mean, rows, total
from npformer.typing import HostArrays


def _last_wins(c: Any) -> HostArrays:
    table = np.zeros_like(c.table)
    table[c.tokens] = c.scale * c.dy
    return {"dtable": table}


def _no_offset(c: Any) -> HostArrays:
    table = np.zeros_like(c.table)
    table[: c.dy.shape[1]] = c.dy.sum(axis=0)
    return {"dtable": table}


def _layer_norm(formula: Any) -> Any:
    """dx from the problem, x̂, r and g."""
    return lambda c: {"dx": formula(c, *c.cache[:2], c.dy * c.gamma)}


def _unmasked(c: Any) -> HostArrays:
    p, q, _, num_counted = c.cache
    return {"dlogits": (p - q) * c.dloss / num_counted}


def _unsmoothed(c: Any) -> HostArrays:
    p, _, counted, num_counted = c.cache
    one_hot = c.targets[..., None] == np.arange(p.shape[-1])
    return {"dlogits": (p - one_hot) * counted * c.dloss / num_counted}


def _counted_instead(divisor: Any) -> Any:
    return lambda c: {"dlogits": c.dlogits * c.cache[3] / divisor(c)}


TOKENS: dict[str, list[Mistake]] = {
    "embedding": [
        Mistake("assigned instead of added", "Only the rows of tokens that occur more than once are wrong.",
                "If a token stands three times in the text, three rows of dy belong to one row of the table. "
                "What becomes of them?",
                "Rows are assigned, so the last one wins; they must be added up. (`dtable[tokens] += dy` does not do "
                "that: NumPy reads, adds and writes back once per row.)",
                "np.add.at(dtable, tokens, scale * dy)", _last_wins),
        Mistake("scale left out", "dtable is too small by one factor, 1/scale.",
                "By what was a row multiplied on its way to y?", "The factor scale is missing.",
                "np.add.at(dtable, tokens, scale * dy)", lambda c: {"dtable": c.dtable / c.scale}),
        Mistake("padding row zeroed", "Only row 0 of dtable is wrong: it is 0.",
                "Does the forward treat token 0 in any special way?",
                "Row 0 is used like any other here; that padding does not count is the loss's business.",
                "Leave row 0 as it is.",
                lambda c: {"dtable": c.dtable * (np.arange(len(c.dtable)) > 0)[:, None]}),
    ],
    "learned_positions": [
        Mistake("averaged over the batch", "dtable is smaller than it should be, by the batch size.",
                "A row is used once in each sequence. A sum over its uses, or a mean?",
                "dtable is a sum over the batch.", "np.sum(dy, axis=0)",
                lambda c: {"dtable": c.dtable / c.x.shape[0]}),
        Mistake("offset left out", "The numbers of dtable are right, and stand in other rows.",
                "To which rows did the forward go, if the first token is at position offset?",
                "The gradients belong in the rows from offset on.", "dtable[offset : offset + T] = …", _no_offset),
        Mistake("axes not summed", "dtable has an axis for the batch.",
                "Which axis does x have that the table does not? What becomes of it on the way back?",
                "Sum over the batch: every sequence used the same rows.", "np.sum(dy, axis=0)",
                lambda c: {"dtable": c.dy}),
    ],
    "layer_norm": [
        Mistake("no mean of g", "The rows of dx do not add up to 0, yet adding one number to a token changes no y.",
                "x reaches y by three ways. Which of them is the mean μ?",
                "The way through the mean is missing: a term −mean_C(g).",
                "r * (g - mean(g) - x_hat * mean(g * x_hat))",
                _layer_norm(lambda c, h, r, g: r * (g - h * mean(g * h)))),
        Mistake("no x_hat term", "dx has a part along x̂, yet stretching a token changes (nearly) no y.",
                "x reaches y by three ways. Which of them is r, the scale?",
                "The way through r is missing: a term −x̂·mean_C(g·x̂).", "r * (g - mean(g) - x_hat * mean(g * x_hat))",
                _layer_norm(lambda c, h, r, g: r * (g - mean(g)))),
        Mistake("statistics as constants", "dx is γ·r·dy: as if μ and r were constants.",
                "If one number of a token moves, do mean and variance stay?",
                "Both ways through the statistics are missing, the one through μ and the one through r.",
                "r * (g - … - x_hat * …)", _layer_norm(lambda c, h, r, g: r * g)),
        Mistake("gamma outside the means", "dx would be right if all entries of γ were equal.",
                "What gradient reaches x̂: dy, or something you have to make of dy first?",
                "γ stands outside the means. It belongs inside: first g = γ·dy, then the formula with g alone.",
                "g = dy * gamma; dx = r * (g - mean(g) - x_hat * mean(g * x_hat))",
                _layer_norm(lambda c, h, r, g: c.gamma * r * (c.dy - mean(c.dy) - h * mean(c.dy * h)))),
        Mistake("gamma left out", "dx does not depend on γ.", "By what was x̂ multiplied on the way to y?",
                "γ is missing: the gradient that reaches x̂ is g = γ·dy.", "g = dy * gamma",
                _layer_norm(lambda c, h, r, g: r * (c.dy - mean(c.dy) - h * mean(c.dy * h)))),
        Mistake("r left out", "dx is too small or too large by another factor for each token.",
                "x̂ = (x − μ)·r. What does that last factor do on the way back?", "The factor r is missing.",
                "r * (…)", _layer_norm(lambda c, h, r, g: g - mean(g) - h * mean(g * h))),
        Mistake("sums for means", "dx is right for no token of width 2 or more.",
                "Which operation did the forward use over C: a sum, or a mean?", "The two sums over C must be means.",
                "np.mean(g, axis=-1, keepdims=True)",
                _layer_norm(lambda c, h, r, g: r * (g - total(g, -1) - h * total(g * h, -1)))),
        Mistake("x_hat left out of dgamma", "dgamma equals dbeta.", "What does γ multiply in the forward?",
                "dgamma is Σ dy·x̂, not Σ dy.", "np.sum(dy * x_hat, axis=tokens)",
                lambda c: {"dgamma": c.dbeta}),
        Mistake("x for x_hat", "dgamma is as if x had not been normalised.", "What does γ multiply in the forward?",
                "γ met x̂, not x.", "np.sum(dy * x_hat, axis=tokens)",
                lambda c: {"dgamma": rows(c.dy * c.x).sum(axis=0)}),
        Mistake("averaged over tokens", "It is smaller than it should be, by the number of tokens.",
                "γ and β serve every token. A sum over their uses, or a mean?", "It is a sum over the tokens.",
                "np.sum(…, axis=tokens)",
                lambda c: {"dgamma": c.dgamma / len(rows(c.x)), "dbeta": c.dbeta / len(rows(c.x))}),
        Mistake("axes not summed", "It still has an axis for the tokens.",
                "Which axes does y have that γ and β do not? What becomes of them on the way back?",
                "Sum over every axis but the last, not over the first alone.",
                "tokens = tuple(range(dy.ndim - 1)); np.sum(…, axis=tokens)",
                lambda c: {"dbeta": c.dy.sum(axis=0), "dgamma": (c.dy * c.cache[0]).sum(axis=0)}),
    ],
    "cross_entropy": [
        Mistake("mean over all tokens", "dlogits is too small where there is padding, and right where there is none.",
                "Over how many tokens does the forward take the mean? Look at its last line.",
                "Divide by the number of tokens that count, not by B·T.", "… * dloss / num_counted",
                _counted_instead(lambda c: c.targets.size)),
        Mistake("divided by the batch", "dlogits is off by one factor, another in each case.",
                "Over how many tokens does the forward take the mean? Look at its last line.",
                "Divide by the number of tokens that count, not by the batch size B.", "… * dloss / num_counted",
                _counted_instead(lambda c: len(c.targets))),
        Mistake("not divided", "dlogits is too large by the number of tokens that count.",
                "The loss is a mean. Where is the division on the way back?",
                "The division by the number of counted tokens is missing.", "… * dloss / num_counted",
                _counted_instead(lambda c: 1)),
        Mistake("padding counts", "dlogits is not 0 where the token is padding.",
                "If the logits of a padded token move, does the loss?",
                "Tokens whose target is ignore_index must get gradient 0.",
                "np.where(counted, dloss / num_counted, 0.0)",
                _unmasked),
        Mistake("smoothing left out", "dlogits is right without label smoothing and wrong with it.",
                "With what is p compared in the forward: the one-hot target, or q?",
                "It is p − q, and q holds the label smoothing.", "(p - q) * …", _unsmoothed),
        Mistake("dloss left out", "dlogits does not depend on dloss.",
                "The loss may be multiplied by something later on. How would you know?",
                "The incoming gradient dloss is missing.", "… * dloss / num_counted",
                lambda c: {"dlogits": c.dlogits / float(c.dloss)}),
        Mistake("sign", "dlogits has the opposite sign: training would raise the loss.",
                "If the logit of the right token grows, does the loss grow or fall?", "p − q, not q − p.",
                "(p - q) * …", lambda c: {"dlogits": -c.dlogits}),
    ],
}  # fmt: skip
