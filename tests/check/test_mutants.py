"""Mutants: every kind of mistake, each in exactly one place, of functions that stay as they are."""

import ast
import inspect
import textwrap

import numpy as np
import pytest

from npformer import functional
from npformer.check.causes.mutants import mutants, nested_mutants
from npformer.functional import attention_backward, layer_norm_backward, softmax_backward
from tests.check.functions import normal


def everything(xp, a, b, c):
    total = xp.sum(a * b, axis=0) - c
    kept = xp.where(total > 0, total / b, c)
    return xp.matmul(a, xp.matrix_transpose(b)) + kept, -kept


def of(function, operator):
    return {(m.before, m.after) for m in mutants(function) if m.operator == operator}


RETURNED = "(xp.matmul(a, xp.matrix_transpose(b)) + kept, -kept)"
WHERE = "xp.where(total > 0, total / b, c)"


@pytest.mark.parametrize(
    ("operator", "before", "after"),
    [
        ("drop a term", "xp.sum(a * b, axis=0) - c", "xp.sum(a * b, axis=0)"),
        ("drop a term", "xp.sum(a * b, axis=0) - c", "-c"),
        ("drop a term", "xp.matmul(a, xp.matrix_transpose(b)) + kept", "kept"),
        ("change a sign", "xp.sum(a * b, axis=0) - c", "xp.sum(a * b, axis=0) + c"),
        ("change a sign", RETURNED, "(-(xp.matmul(a, xp.matrix_transpose(b)) + kept), -kept)"),
        ("drop a factor", "a * b", "a"),
        ("drop a factor", "a * b", "b"),
        ("drop a factor", "total / b", "total"),
        ("scale by 2", "a * b", "2 * (a * b)"),
        ("scale by 2", RETURNED, "(xp.matmul(a, xp.matrix_transpose(b)) + kept, 2 * -kept)"),
        ("swap operands", "xp.sum(a * b, axis=0) - c", "c - xp.sum(a * b, axis=0)"),
        ("swap operands", "xp.matmul(a, xp.matrix_transpose(b))", "xp.matmul(xp.matrix_transpose(b), a)"),
        ("swap operands", "total / b", "b / total"),
        ("drop a transpose", "xp.matrix_transpose(b)", "b"),
        ("shift an axis", "xp.sum(a * b, axis=0)", "xp.sum(a * b, axis=1)"),
        ("sum to mean", "xp.sum(a * b, axis=0)", "xp.mean(a * b, axis=0)"),
        ("flip a choice", WHERE, "xp.where(total > 0, c, total / b)"),
        ("flip a choice", "total > 0", "total < 0"),
        ("drop the choice", WHERE, "total / b"),
        ("swap outputs", RETURNED, "(-kept, xp.matmul(a, xp.matrix_transpose(b)) + kept)"),
        ("return zero", RETURNED, "(xp.matmul(a, xp.matrix_transpose(b)) + kept, 0 * -kept)"),
    ],
)
def test_every_operator_occurs(operator, before, after):
    assert (before, after) in of(everything, operator)


@pytest.mark.parametrize("function", [everything, layer_norm_backward])
def test_each_mutant_is_another_and_differs_in_one_line(function):
    mutated = mutants(function)
    original = ast.unparse(ast.parse(textwrap.dedent(inspect.getsource(function))))
    assert len({m.source for m in mutated} | {original}) == len(mutated) + 1
    for mutant in mutated:
        lines = zip(original.splitlines(), mutant.source.splitlines(), strict=True)
        assert sum(one != other for one, other in lines) == 1, mutant.describe()


def test_the_line_and_the_sentence():
    (mutant,) = [
        m
        for m in mutants(layer_norm_backward)
        if (m.before, m.after) == ("r * (g - along_one - x_hat * along_x_hat)", "r")
    ]
    lines, first = inspect.getsourcelines(layer_norm_backward)
    assert mutant.before in lines[mutant.line - first]
    assert mutant.describe() == (
        f"drop a factor: `{mutant.before}` became `r` (layer_norm_backward, line {mutant.line})"
    )


def test_the_original_is_untouched_and_the_mutant_is_wrong():
    before = softmax_backward, softmax_backward.__code__, vars(functional).copy()
    y = np.array([[0.2, 0.3, 0.5]])
    mutant = next(m for m in mutants(softmax_backward) if m.operator == "drop a term" and not m.after.startswith("-"))
    dy = np.array([[1.0, 2.0, 4.0]])
    cache = functional.softmax_forward(np.log(y))[1]
    (wrong,), (right,) = mutant.build(dy, cache), softmax_backward(dy, cache)
    np.testing.assert_allclose(right, y * (dy - np.sum(y * dy)))
    np.testing.assert_allclose(wrong, y * dy)
    assert (softmax_backward, softmax_backward.__code__, vars(functional).copy()) == before


def test_functions_inside_functions():
    scale = 3.0

    def backward(dy):
        return scale * dy

    assert {m.build(2.0) for m in mutants(backward)} == {3.0, 2.0, 12.0, -6.0, 0.0}


def test_a_mistake_that_changes_nothing_in_the_text_is_none():
    def square(x):
        return x - x

    assert "swap operands" not in {m.operator for m in mutants(square)}


def test_nested_mutants_hold_a_mistake_of_a_part_inside_the_whole():
    parts = {m.function for m in nested_mutants(attention_backward)}
    assert parts == {"attention_backward", "softmax_backward", "dropout_backward"}
    q, k, v, dout = normal(4, 2, 2, 3, 3)
    cache = functional.attention_forward(q, k, v)[1]
    right = attention_backward(dout, cache)
    (mutant,) = [m for m in nested_mutants(attention_backward) if m.function == "softmax_backward"][:1]
    wrong = mutant.build(dout, cache)
    np.testing.assert_array_equal(wrong[2], right[2])  # dv does not pass through the softmax's backward
    assert not np.allclose(wrong[0], right[0])
    np.testing.assert_array_equal(attention_backward(dout, cache)[0], right[0])


def test_a_function_whose_code_was_exchanged_has_the_mutants_of_its_new_code():
    """As the museum does it; what was found meanwhile is not what is found afterwards."""

    def made(x):
        return x + 1

    function, as_it_was = made, made.__code__

    def made(x):  # type: ignore[no-redef]
        return x - 2

    function.__code__ = made.__code__
    assert ("x - 2", "x") in of(function, "drop a term")
    function.__code__ = as_it_was
    assert ("x + 1", "x") in of(function, "drop a term")
