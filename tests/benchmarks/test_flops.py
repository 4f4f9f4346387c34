"""The least work of an operation, by hand for small shapes, and for a whole step."""

import numpy as np
import pytest

from benchmarks.flops import Work, adam_work, work_of
from npformer.backend import PLAIN
from npformer.functional import ALL_VISIBLE, OPERATIONS, AttentionMask, Draw

N, C, F, V = 6, 4, 5, 3  # tokens, widths, rows of a table
DRAW = Draw(0, 0, 0, 0, 0.5)
X = np.zeros((2, 3, C))  # (B, T, C)
TOKENS = np.zeros((2, 3), dtype=np.int64)
GAIN = np.ones(C)
HEADS = np.zeros((2, 2, 3, 2))  # (B, H, T, D)
KEYS = np.zeros((2, 2, 5, 2))  # (B, H, S, D)
NORM = (GAIN, GAIN, 1e-5)
LINEAR = (np.zeros((C, F)), np.zeros(F))
UP_DOWN = (np.zeros((C, F)), np.zeros(F), np.zeros((F, C)), np.zeros(C), "relu")
LONG = np.zeros((1, 2, 7, 4))  # (B, H, T, D)
NC, NF, NV = N * C, N * F, N * V

#: op -> inputs, forward's (flops, numbers), backward's: some in which all numbers move, and all in which some need not.
#: What the first depend on tests/functional/test_operation.py measures of every operation.
CASES = {
    "linear": (
        (X, *LINEAR),
        (2 * N * C * F, NC + C * F + F + NF),
        (4 * N * C * F, NF + NC + C * F + NC + 2 * (C * F + F)),
    ),
    "softmax": ((X, None), (0, 2 * NC), (0, 3 * NC)),
    "dropout": ((X, DRAW), (0, 2 * NC), (0, 2 * NC)),
    "embedding": ((TOKENS, np.zeros((V, C)), 2.0), (0, N + 2 * NC), (0, NC + N + 2 * V * C)),
    "sinusoidal_positions": ((X, 0), (0, 2 * NC), (0, 0)),
    "learned_positions": ((X, np.zeros((9, C)), 0), (0, 2 * NC + 3 * C), (0, NC + 2 * 3 * C)),
    "attention": (
        (HEADS, KEYS, KEYS, ALL_VISIBLE, DRAW),
        (2 * 2 * 4 * 3 * 5 * 2, 24 + 40 + 40 + 24),
        (4 * 2 * 4 * 3 * 5 * 2, 24 + 2 * (24 + 40 + 40)),
    ),
    "local_attention": (  # 7 queries see themselves, 6 the one before
        (LONG, LONG, LONG, AttentionMask(causal=True, window=2), DRAW),
        (2 * 2 * 2 * 13 * 4, 4 * 56),
        (4 * 2 * 2 * 13 * 4, 7 * 56),
    ),
    "residual": ((X, X, DRAW), (0, 3 * NC), (0, 2 * NC)),
    "post_norm": ((X, X, *NORM, DRAW), (0, 3 * NC + 2 * C), (0, 5 * NC + C + 4 * C)),
    "add_norm": ((X, X, *NORM, DRAW), (0, 4 * NC + 2 * C), (0, 5 * NC + C + 4 * C)),
    "feed_forward": (
        (X, *UP_DOWN, DRAW),
        (4 * N * C * F, 2 * NC + 2 * C * F + F + C),
        (8 * N * C * F, 3 * NC + 2 * C * F + F + 2 * (2 * C * F + F + C)),
    ),
    "cross_entropy": ((np.zeros((2, 3, V)), TOKENS, 0, 0.0), (0, NV + N + 1), (0, 1 + 2 * NV + N)),
}


def test_wherever_less_moves_it_is_counted_by_hand():
    assert {op for op, row in OPERATIONS.items() if row.moves} <= set(CASES)


@pytest.mark.parametrize("op", CASES)
def test_by_hand(op):
    inputs, forward, backward = CASES[op]
    y, _ = getattr(PLAIN, op).forward(*inputs)
    assert work_of(op, y, inputs) == (Work(*forward), Work(*backward))


def test_without_dropout_less_moves():
    assert work_of("dropout", X, (X, None)) == (Work(), Work())
    assert work_of("residual", X, (X, X, None))[1] == Work()
    assert work_of("post_norm", X, (X, X, *NORM, None))[1].numbers == 4 * NC + C + 4 * C


@pytest.mark.parametrize(
    ("mask", "pairs"),
    [
        (AttentionMask(window=1), 7),
        (AttentionMask(window=3), 7 + 2 * (6 + 5)),
        (AttentionMask(causal=True, window=99), 28),
        (AttentionMask(stride=3), 7 + 2 * (4 + 1)),
        (AttentionMask(causal=True, window=2, stride=2), 7 + 6 + 5 + 3 + 1),
    ],
)
def test_local_attention_is_charged_for_the_pairs_that_may_meet(mask, pairs):
    visible = mask.visible(7, 7, LONG)
    assert visible is not None
    assert pairs == visible.sum()
    assert work_of("local_attention", LONG, (LONG, LONG, LONG, mask))[0].flops == 4 * 2 * pairs * 4


def test_adam_reads_four_arrays_and_writes_three():
    assert adam_work(10) == Work(0, 70)
