"""What the pattern of an error tells, tensor by tensor, without a reference; and that noise tells nothing."""

import math

import numpy as np
import pytest

from npformer.check import gradcheck
from npformer.check.causes.patterns import (
    UNKNOWN,
    Clues,
    Diagnosis,
    by_pattern,
    diagnose,
    name_of,
)
from tests.check.functions import normals

normal = normals()
B, T, H, D = 3, 5, 2, 6
N = normal(B, T, H * D)  # a true gradient
SIZES = {"B": 3.0, "T": 5.0, "C": 12.0, "D": 6.0, "√D": math.sqrt(6), "1/(1−p)": 1 / 0.7}
TOKENS = np.array([[3, 1, 3, 0], [0, 3, 4, 6]])  # 3 and 0 are used more than once; 2 and 5 never
VISIBLE = np.arange(T) < np.array([[5], [3], [2]])


def cause(a, n=N, **clues):
    diagnosis = diagnose({"x": a}, {"x": n}, Clues(**clues))
    return diagnosis["x"].cause


@pytest.mark.parametrize(
    ("factor", "name", "text"),
    [
        (0.5, "1/2", "it is 1/2 of what it should be everywhere"),
        (3.0, "3", "it is 3 times too large everywhere; B = 3, too"),
        (1 / 15, "1/(B·T)", "it is 1/(B·T) = 0.06667 of what it should be everywhere"),
        (1 / math.sqrt(6), "1/√D", "it is 1/√D = 0.4082 of what it should be everywhere"),
        (1 / 0.7, "1/(1−p)", "it is 1/(1−p) = 1.429 times too large everywhere"),
        (1.00001, "1.00001", "it is 1.00001 times too large everywhere"),
        (-0.31, "-0.31", "it is -0.31 of what it should be everywhere"),
    ],
)
def test_a_constant_factor_and_what_it_equals(factor, name, text):
    diagnosis = by_pattern(factor * N, N, Clues(sizes=SIZES))
    assert (diagnosis.cause.split(" = ")[0], diagnosis.text) == (f"scaled by {name}", text)


SQUARE, HEADS = normal(2, 4, 4), N.reshape(B, T, H, D)
HURT = N.copy()
HURT[0, 1, 2:4] = np.nan, np.inf


@pytest.mark.parametrize(
    ("wrong", "right", "label", "text"),
    [
        (-N, N, "sign", "it has the opposite sign everywhere"),
        (0 * N, N, "zero", "it is zero everywhere, where it should not be"),
        (N, 0 * N, "not zero", "it should be zero everywhere, and is not"),
        (HURT, N, "not finite", "2 of 180 entries are NaN or infinite"),
        (np.swapaxes(SQUARE, 1, 2), SQUARE, "transposed", "axes 1 and 2 are exchanged"),
        (np.where(N > 1, 0, N), N, "zero in places", f"{np.sum(N > 1)} of 180 entries are 0 where they should not be"),
        (N - N.mean(axis=-1, keepdims=True), N, "term missing",
         "it is off by a constant along axis 2: is a mean over it missing?"),
        (HEADS[:, :, ::-1].reshape(N.shape), N, "heads exchanged",
         "head h holds what belongs to head h − 1: cross-talk"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)  # fmt: skip
def test_the_pattern_of_an_error(wrong, right, label, text):
    assert by_pattern(wrong, right, Clues(num_heads=H)) == Diagnosis(label, text)


def test_what_only_looks_like_a_pattern():
    assert cause(np.swapaxes(N, 0, 1).reshape(N.shape)) == UNKNOWN.cause  # not a transposition: another shape
    merged = np.swapaxes(HEADS, 1, 2).reshape(N.shape)
    assert cause(merged, num_heads=H) == "heads merged wrongly"
    assert cause(merged) == UNKNOWN.cause
    assert cause(merged, num_heads=5) == UNKNOWN.cause  # does not divide the width


def test_a_true_gradient_of_rounding_alone_counts_as_zero():
    """As that of a key's bias, beside others that are not zero."""
    noise = 1e-17 * normal(4)
    truth = {"bias": noise, "weight": N}
    assert diagnose({"bias": -noise, "weight": N}, truth) == {}
    diagnosis = diagnose({"bias": np.array([0.1, 0.2, 0.3, -0.4]), "weight": N}, truth)
    assert {name: d.cause for name, d in diagnosis.items()} == {"bias": "not zero"}


def test_names_of_numbers():
    assert name_of(-1.0, SIZES) == "−1"
    assert name_of(2.0, {"B": 2.0}) == "2"
    assert name_of(12.0, {"C": 12.0}) == "C = 12"
    assert name_of(3.01, {"B": 3.0}) == "3.01"
    assert name_of(1.4, {"B": 0.0}) == "1.4"


def test_repeated_tokens_assigned_instead_of_accumulated():
    dy, table = normal(*TOKENS.shape, 4), np.zeros((7, 4))
    np.add.at(table, TOKENS, dy)
    assigned = np.zeros_like(table)
    assigned[TOKENS] = dy
    diagnosis = by_pattern(assigned, table, Clues(tokens=TOKENS))
    assert diagnosis.cause == "wrong at repeated tokens"
    assert diagnosis.text == "only rows 0, 3 are wrong, those of repeated tokens: assigned instead of accumulated?"
    everywhere = np.where(table != 0, table + normal(*table.shape), 0)
    assert cause(everywhere, table, tokens=TOKENS) == UNKNOWN.cause


def test_where_every_token_is_repeated_nothing_follows_from_that():
    tokens, table = np.array([[1, 2, 1], [2, 1, 2]]), normal(4, 3)
    table[[0, 3]] = 0
    wrong = np.where(table != 0, table + normal(*table.shape), 0)
    assert cause(wrong, table, tokens=tokens) == UNKNOWN.cause


def test_masked_positions():
    leaked = np.where(VISIBLE[..., None], N, N + normal(*N.shape))
    assert cause(leaked, key_visible=VISIBLE) == "wrong at masked positions"
    assert cause(np.where(VISIBLE[..., None], N + 1e-3 * N**2, N), key_visible=VISIBLE) == UNKNOWN.cause
    heads = np.swapaxes(N.reshape(B, T, H, D), 1, 2)  # (B, H, S, D), as keys and values are
    leaked = np.where(VISIBLE[:, None, :, None], heads, heads + normal(*heads.shape))
    assert cause(leaked, heads, key_visible=VISIBLE) == "wrong at masked positions"


@pytest.mark.parametrize(("axis", "index", "where"), [(0, 0, "first"), (2, N.shape[2] - 1, "last")])
def test_one_end_of_an_axis(axis, index, where):
    wrong = N.copy()
    np.moveaxis(wrong, axis, 0)[index] += normal(*wrong.shape[:axis] + wrong.shape[axis + 1 :])
    text = f"only index {index} of axis {axis} is wrong, the {where}"
    assert by_pattern(wrong, N, Clues()) == Diagnosis(f"wrong at the {where} position", text)


def test_a_position_in_the_middle_is_no_pattern():
    wrong = N.copy()
    wrong[:, 2] += normal(B, H * D)
    assert cause(wrong) == UNKNOWN.cause


def test_sums_over_an_axis():
    for axis, word, divisor in ((1, "summed", 1), (2, "averaged", H * D)):
        wrong = np.broadcast_to(N.sum(axis=axis, keepdims=True), N.shape) / divisor
        text = f"it is {word} over axis {axis} once too often"
        assert by_pattern(wrong, N, Clues()) == Diagnosis("axis summed twice", text)


@pytest.mark.parametrize("size", [1.0, 3e-7])
def test_noise_is_no_pattern(size):
    """Random errors, on tensors of many shapes, with every clue there is: better no diagnosis than a guess."""
    rng = np.random.default_rng(1)
    for shape in 30 * [(7, 4), (4, 4), (3, 5, 12), (3, 2, 5, 6), (6,), (12,), (2, 3, 4)]:
        n = rng.normal(size=shape)
        a = n + size * rng.normal(size=shape)
        assert by_pattern(a, n, Clues(SIZES, TOKENS, VISIBLE, 2)) == UNKNOWN
    assert UNKNOWN.text == "no known pattern fits"


def test_what_is_right_gets_no_diagnosis():
    assert diagnose({"a": N, "b": 2 * N}, {"a": N, "b": N}).keys() == {"b"}
    assert diagnose({"a": N + 1e-9}, {"a": N}) == {}


def test_the_report_says_it():
    pair = (lambda x: (np.tanh(x), x), lambda dy, x: x.shape[1] * dy / np.cosh(x) ** 2)
    report = gradcheck(pair, N[:, :, :4])
    (row,) = report.rows
    assert row.cause == "scaled by T = 5"
    assert row.diagnosis.startswith("it is T = 5 times too large everywhere: test_diagnosis.py, line ")
    assert row.diagnosis.endswith("`x.shape[1] * dy` should be `dy`")
    assert "x: it is T = 5 times too large everywhere" in str(report)
