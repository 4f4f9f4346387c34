"""NaN and infinity stay visible: where the plain pair returns NaN or ∞, no fast one returns a number."""

import dataclasses
import re
from functools import partial

import numpy as np
import pytest

from npformer.backend import PLAIN
from npformer.check.cases.op_samples import op_cases
from npformer.functional import AttentionMask, Draw
from tests.backend.conftest import both_ways
from tests.test_contract import is_float

SPECIAL = {"nan": np.nan, "negative nan": np.copysign(np.nan, -1.0), "inf": np.inf, "-inf": -np.inf}


def unpadded(x):
    """x without padding, whose numbers need not be looked at."""
    if isinstance(x, AttentionMask):
        return dataclasses.replace(x, key_visible=None)
    return None if isinstance(x, np.ndarray) and x.dtype == bool else x


#: The catalogue's cases of operations, each with dropout, if it has any, and without.
CASES = {}
for each in op_cases():
    op, poisoned_inputs = each.name.partition(":")[0], [unpadded(x) for x in each.inputs]
    CASES[each.name] = op, poisoned_inputs
    CASES[each.name.replace("dropout", "inference")] = op, [None if isinstance(x, Draw) else x for x in poisoned_inputs]

#: Where the plain pair multiplies by 0 what is hidden, padding, or another token's row, NaN spreads to places that it
#: need not reach; somewhere in the same array it must be seen.
PARTLY = re.compile(
    "(local_)?attention: .*(causal|window|stride|saturated)|embedding|relative_bias|cross_entropy: padding"
)
#: Where it reaches further by some tables, which multiply by masks, or add what was multiplied.
FURTHER = re.compile("(linear_|local_|biased_)?attention|feed_forward: relu|.*dropout")


def upstream(y, poison=None):
    """A gradient of y, in which poison stands somewhere."""
    dy = np.cos(np.arange(y.size, dtype=y.dtype))
    if poison is not None:
        dy[y.size // 2] = poison
    return dy.reshape(y.shape)


def lost(case, actual, true):
    """Which arrays say a number where there is none, or none where there is one."""
    missing = [np.isfinite(f) & ~np.isfinite(t) for f, t in zip(actual, true, strict=True)]
    if PARTLY.match(case):
        missing = [m & np.isfinite(f).all() for f, m in zip(actual, missing, strict=True)]
    spread = [~np.isfinite(f) & np.isfinite(t) & (not FURTHER.match(case)) for f, t in zip(actual, true, strict=True)]
    wrong = [*enumerate(missing), *enumerate(spread)]
    return [f"array {i} at {np.argwhere(m)[:3].tolist()}" for i, m in wrong if m.any()]


@pytest.mark.parametrize("case", CASES)
def test_no_number_where_there_is_none(table, case, dtype):
    (op, poisoned_inputs), problems = CASES[case], []
    inputs = tuple(x.astype(dtype) if is_float(x) else x for x in poisoned_inputs)
    for name, value in SPECIAL.items():
        for i, x in enumerate(inputs):
            if is_float(x):
                poisoned = x.copy()
                poisoned.reshape(-1)[3 * x.size // 10] = value
                poisoned_inputs = (*inputs[:i], poisoned, *inputs[i + 1 :])
                actual, true = (both_ways(ops, op, poisoned_inputs, upstream) for ops in (table, PLAIN))
                problems += [f"{name} in input {i}: {place}" for place in lost(case, actual, true)]
        actual, true = (both_ways(ops, op, inputs, partial(upstream, poison=value)) for ops in (table, PLAIN))
        problems += [f"{name} in dy: {place}" for place in lost(case, actual, true)]
    assert not problems, "\n".join(problems)


def test_a_class_that_cannot_be_does_not_count(table, dtype):
    """A logit of −∞ is a probability of 0, and the loss is that of the other classes."""
    logits, targets, *_ = CASES["cross_entropy: padding"][1]
    logits = logits.astype(dtype)
    barred = np.concatenate([logits, np.full((*logits.shape[:-1], 1), -np.inf, dtype)], axis=-1)
    loss, dlogits = both_ways(table, "cross_entropy", (barred, targets, 0, 0.0), upstream)
    true, dtrue = both_ways(PLAIN, "cross_entropy", (logits, targets, 0, 0.0), upstream)
    np.testing.assert_allclose(loss, true, rtol=1e-5)
    np.testing.assert_allclose(dlogits[..., :-1], dtrue, rtol=1e-4, atol=1e-6)
    assert not dlogits[..., -1].any()
