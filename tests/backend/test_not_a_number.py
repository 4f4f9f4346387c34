"""NaN and infinity stay visible: where the plain pair returns NaN or ∞, no fast one returns a number."""

import numpy as np
import pytest

from npformer.backend import PLAIN
from npformer.functional import AttentionMask, Draw

DRAW = Draw(3, 4, 1, 99, 0.3)
SPECIAL = {"nan": np.nan, "negative nan": np.copysign(np.nan, -1.0), "inf": np.inf, "-inf": -np.inf}
IDS = np.array([[1, 2, 3, 2, 1], [0, 3, 1, 2, 2]])
CASES = [
    "linear", "gelu", "dropout", "embedding", "layer_norm", "residual", "post_norm", "add_norm",
    "attention", "attention causal", "attention dropout", "feed_forward relu", "feed_forward gelu",
    "feed_forward relu dropout", "feed_forward gelu dropout", "cross_entropy", "cross_entropy smoothed",
    "sinusoidal_positions", "learned_positions", "rotary", "relative_bias", "batch_norm", "batch_norm_inference",
    "biased_attention", "biased_attention causal",
    "local_attention", "local_attention causal dropout", "linear_attention", "linear_attention causal",
]  # fmt: skip


#: Where the plain pair multiplies by 0 what is hidden, dropped, padding, or another token's row, NaN spreads to
#: places that it need not reach; somewhere in the same array it must be seen.
PARTLY = {case for case in CASES if "causal" in case or "dropout" in case or "cross_entropy" in case}
PARTLY |= {"embedding", "relative_bias", "local_attention"}
#: Where it reaches no further, either, by no table: others multiply by masks, or add what was multiplied.
EXACT = {"linear", "gelu", "embedding", "layer_norm", "feed_forward gelu", "cross_entropy", "cross_entropy smoothed",
         "sinusoidal_positions", "learned_positions", "rotary", "relative_bias", "batch_norm",
         "batch_norm_inference"}  # fmt: skip


def inputs_for(case, dtype):
    rng = np.random.default_rng(0)
    op, *kind = case.split()
    draw = DRAW if "dropout" in kind or op in ("dropout", "residual", "post_norm", "add_norm") else None

    def make(*shape):
        return np.asarray(rng.normal(size=shape)).astype(dtype)

    x, gain, weight, heads = make(2, 5, 4), make(4), make(4, 4), (make(2, 2, 5, 4), make(2, 2, 5, 4), make(2, 2, 5, 4))
    return {
        "linear": (x, weight, gain), "gelu": (x,), "dropout": (x, draw), "embedding": (IDS, weight, 1.5),
        "layer_norm": (x, gain, gain, 1e-5), "residual": (x, make(2, 5, 4), draw),
        "post_norm": (x, make(2, 5, 4), gain, gain, 1e-5, draw), "add_norm": (x, x, gain, gain, 1e-5, draw),
        "attention": (*heads, AttentionMask(causal="causal" in kind), draw),
        "feed_forward": (x, weight, gain, weight, gain, kind[0] if kind else "", draw),
        "sinusoidal_positions": (x, 1), "learned_positions": (x, make(6, 4), 1),
        "rotary": (x, 1), "relative_bias": (weight, 5, 6, 0, False, 4), "batch_norm": (x, gain, gain),
        "batch_norm_inference": (x, gain, gain, gain, gain * gain),
        "biased_attention": (*heads, make(2, 5, 5), AttentionMask(causal="causal" in kind), draw),
        "local_attention": (*heads, AttentionMask(causal="causal" in kind, window=2, stride=3), draw),
        "linear_attention": (*heads, AttentionMask(causal="causal" in kind)),
        "cross_entropy": (x, IDS, 0, 0.1 if kind else 0.0),
    }[op]  # fmt: skip


def both_ways(ops, op, inputs, poison=None):
    """Outputs and gradients; poison stands somewhere in the upstream gradient."""
    with np.errstate(all="ignore"):
        y, cache = getattr(ops, op).forward(*inputs)
        outputs = y if isinstance(y, tuple) else (y,)
        dy = tuple(np.cos(np.arange(part.size, dtype=part.dtype)).reshape(part.shape) for part in outputs)
        if poison is not None:
            for part in dy:
                part[...] = np.where(np.arange(part.size).reshape(part.shape) == part.size // 2, poison, part)
        gradients = getattr(ops, op).backward(dy if isinstance(y, tuple) else dy[0], cache)
    return [*outputs, *(gradients if isinstance(gradients, tuple) else (gradients,))]


def lost(case, found, true):
    """Which arrays say a number where there is none, or none where there is one."""
    missing = [np.isfinite(f) & ~np.isfinite(t) for f, t in zip(found, true, strict=True)]
    if case in PARTLY:
        missing = [m & np.isfinite(f).all() for f, m in zip(found, missing, strict=True)]
    spread = [~np.isfinite(f) & np.isfinite(t) & (case in EXACT) for f, t in zip(found, true, strict=True)]
    wrong = [*enumerate(missing), *enumerate(spread)]
    return [f"array {i} at {np.argwhere(m)[:3].tolist()}" for i, m in wrong if m.any()]


@pytest.mark.parametrize("case", CASES)
def test_no_number_where_there_is_none(table, case, dtype):
    op, inputs = case.split()[0], inputs_for(case, dtype)
    problems = []
    for name, value in SPECIAL.items():
        for i, x in enumerate(inputs):
            if isinstance(x, np.ndarray) and x.dtype.kind == "f" and (case, name) != ("cross_entropy", "-inf"):
                poisoned = x.copy()
                poisoned.reshape(-1)[x.size // 3] = value
                given = (*inputs[:i], poisoned, *inputs[i + 1 :])
                found, true = (both_ways(ops, op, given) for ops in (table, PLAIN))
                problems += [f"{name} in input {i}: {place}" for place in lost(case, found, true)]
        found, true = (both_ways(ops, op, inputs, poison=value) for ops in (table, PLAIN))
        problems += [f"{name} in dy: {place}" for place in lost(case, found, true)]
    assert not problems, "\n".join(problems)


def test_a_class_that_cannot_be_does_not_count(table, dtype):
    """A logit of −∞ is a probability of 0, and the loss is that of the other classes."""
    logits, targets, *_ = inputs_for("cross_entropy", dtype)
    barred = np.concatenate([logits, np.full((*logits.shape[:-1], 1), -np.inf, dtype)], axis=-1)
    loss, dlogits = both_ways(table, "cross_entropy", (barred, targets, 0, 0.0))
    true, dtrue = both_ways(PLAIN, "cross_entropy", (logits, targets, 0, 0.0))
    np.testing.assert_allclose(loss, true, rtol=1e-5)
    np.testing.assert_allclose(dlogits[..., :-1], dtrue, rtol=1e-4, atol=1e-6)
    assert not dlogits[..., -1].any()
