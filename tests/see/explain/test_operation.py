"""Explained operations: every line with its numbers, each formula beside the line that computes it."""

import numpy as np
import pytest

from npformer.functional import OPERATIONS
from npformer.functional.derivation import formulas, split_docstring
from npformer.see.explain.operation import (
    WORDS,
    explained_operation,
    forward_lines,
    operation_lines,
    sample_inputs,
    words_of,
)


def lines_of(function):
    """A function's lines, and those of the functions inside it, with the function's name."""
    for line in function.lines:
        yield function.name, line
        for inner in line.inside:
            yield from lines_of(inner)


@pytest.fixture(scope="module")
def layer_norm():
    return explained_operation("layer_norm")


@pytest.fixture(scope="module")
def attention():
    return explained_operation("attention")


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_is_explained_and_right(name):
    explained = explained_operation(name)
    assert explained.report.ok
    assert "    " in explained.formula
    assert "Backward" not in explained.formula
    assert all(line.code for _, line in (*lines_of(explained.forward), *lines_of(explained.backward)))
    for width in (60, 80, 100, 120, 160):
        assert max(map(len, operation_lines(explained, width))) <= width


def test_a_value_that_is_too_wide_is_folded_and_not_cut(attention):
    text = " ".join(" ".join(operation_lines(attention, 60)).split())
    assert "AttentionMask(key_visible=[[True, True, False]], causal=True, window=None, stride=None)" in text


def test_each_line_of_layer_norms_backward_has_its_formula(layer_norm):
    formulas = {line.code.partition("  #")[0]: line.formulas for _, line in lines_of(layer_norm.backward)}
    assert list(formulas.values()) == [
        (),
        ("dγ = Σ_tokens dy·x̂", "dβ = Σ_tokens dy"),
        ("g = γ·dy",),
        (),
        (),
        ("dx = r·(g − mean_C g − x̂·mean_C(g·x̂))", "dx_i = du_i − mean_C du"),
    ]


def test_each_line_of_attentions_backward_has_its_formula(attention):
    lines = [line for name, line in lines_of(attention.backward) if name == "attention_backward"]
    assert [line.formulas for line in lines] == [
        (),
        (),
        (),
        ("dV = Drop(weights)ᵀ dout",),
        ("dweights = ddropped·keep·s",),
        ("dscores = weights·(dweights − Σ_S dweights·weights)",),
        ("dQ = dscores K/√D",),
        ("dK = dscoresᵀ Q/√D",),
    ]


def test_a_number_of_each_line_is_worked_out(layer_norm):
    entries = {line.entry.name.partition("[")[0]: line for _, line in lines_of(layer_norm.backward) if line.entry}
    assert list(entries) == ["dgamma", "g", "along_one", "along_x_hat", "dx"]
    for line in entries.values():
        name, _, index = line.entry.name.partition("[")
        value = np.asarray(line.values[name])[tuple(map(int, index.rstrip("]").split(",")))]
        assert sum(product.value for product in line.entry.products) == pytest.approx(value, rel=1e-12)


def worked_out(name):
    """The lines in which numbers of an operation are worked out, in words."""
    lines = (*lines_of(explained_operation(name).forward), *lines_of(explained_operation(name).backward))
    return {line.entry.name: " + ".join(p.text for p in line.entry.products) for _, line in lines if line.entry}


def test_a_worked_number_has_no_code_in_it():
    """Each array has its own index, a size is a number, a function is without its module."""
    found = worked_out("cross_entropy")
    assert found["dlogits[0,1,0]"] == "(p[0,1,0] - q[0,1,0])·counted[0,1,0]·dloss·1/num_counted"
    assert found["token_loss[0,2,0]"].startswith("log(power_sum[0,2,0]) + −q[0,2,0]·shifted[0,2,0]")
    assert "q[0,0,2,0]·k[0,0,0,0]·(1 / sqrt(2)) + " in worked_out("attention")["scores[0,0,2,0]"]
    assert not any("shape[" in text for name in OPERATIONS for text in worked_out(name).values())


def test_what_a_return_computes_for_the_cache_is_shown():
    line = [line for _, line in lines_of(explained_operation("cross_entropy").forward)][-1]
    assert line.formulas == ("p_n = softmax(z_n)",)
    np.testing.assert_allclose(line.values["p"].sum(axis=-1), 1)


def test_words_are_explained_where_they_stand(attention, layer_norm):
    assert list(words_of(layer_norm.formula + layer_norm.derivation, layer_norm.inputs)) == [
        "mean_C is the mean over C: model width (d_model)."
    ]
    told = list(words_of(attention.formula + attention.derivation, attention.inputs))
    assert told == [
        "Σ_D is the sum over D: head width.",
        "Σ_S is the sum over S: key or source time.",
        *WORDS.values(),
    ]
    text = " ".join(" ".join(operation_lines(attention, 80)).split())
    assert all(sentence in text for sentence in told)
    assert WORDS["mask"] in " ".join(" ".join(forward_lines(attention, 80)).split())


def test_the_lines_of_the_functions_that_it_calls_are_inside(attention):
    names = {name for name, _ in lines_of(attention.backward)}
    assert {"attention_backward", "softmax_backward", "dropout_backward"} <= names


def test_a_reader_is_told_what_the_caller_calls_an_argument(attention):
    inner = [inside for line in attention.backward.lines for inside in line.inside]
    assert next(each for each in inner if each.name == "softmax_backward").given["dy"] == "dweights"
    text = "\n".join(operation_lines(attention, 160))
    assert "softmax_backward  (functional/softmax.py), where dy is dweights; cache is softmax" in text
    assert "dq (1, 1, 3, 2) =" in text


def test_the_sample_has_one_decimal_and_no_zero():
    longer = set()  # variances, and weights for a sum over states
    for name in OPERATIONS:
        for x in sample_inputs(name):
            if isinstance(x, np.ndarray) and x.dtype.kind == "f":
                longer |= set() if np.array_equal(x, np.round(x, 1)) else {name}
                assert (x != 0).all()
    assert len(longer) == 2


def test_a_formula_ends_where_the_next_begins_and_a_wide_equals_sign_parts_none():
    doc = "A title.\n\n    y     = x W      z_t = x̂·y\n\nBackward, with g = γ·dy:\n\n    dx = g·(y − 1) and so on\n"
    assert formulas(doc) == [
        ("g", "g = γ·dy"),
        ("y", "y = x W"),
        ("z_t", "z_t = x̂·y"),
        ("dx", "dx = g·(y − 1) and so on"),
    ]


def test_a_docstring_is_split_at_backward():
    parts = split_docstring("A title.\n\n    y = x\n\nBackward:\n\n    dx = dy\n\nSource: a book.\n")
    assert parts == ("A title.", "    y = x", "Backward:\n\n    dx = dy", "a book.")
