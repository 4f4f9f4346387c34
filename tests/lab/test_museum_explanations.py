"""Whoever makes a bug of the museum is told its name, where no single generic mistake explains it."""

import numpy as np
import pytest

import npformer as npf
from npformer import functional
from npformer.lab.museum.bugs import bug
from npformer.lab.museum.explanations import explanations
from npformer.lab.museum.patch import changed_functions, patched
from tests.check.functions import normal


def test_they_are_bugs_of_the_backward_or_of_one_that_it_calls():
    of_attention = {mutant.operator for mutant in explanations("attention")}
    assert {"museum bug attention-no-scale", "museum bug softmax-diagonal"} <= of_attention
    assert not any(name.startswith("museum bug test-") for name in of_attention)
    assert "museum bug attention-no-scale" not in {mutant.operator for mutant in explanations("softmax")}


def test_one_is_named():
    (backward,) = changed_functions(bug("embedding-assigned").edits)
    tokens, table = np.array([[1, 4, 1], [2, 1, 0]]), normal(5, 3)

    def embedding_forward(tokens, table, scale):
        return functional.embedding_forward(tokens, table, scale)

    (row,) = npf.gradcheck((embedding_forward, backward), tokens, table, 1.5).rows
    assert (row.verdict, row.cause) == ("WRONG", "museum bug embedding-assigned")


def test_an_operation_that_was_changed_has_fewer():
    names = {mutant.operator for mutant in explanations("embedding")}
    assert names
    with patched(bug("embedding-no-scale").edits):
        assert {mutant.operator for mutant in explanations("embedding")} < names


@pytest.mark.parametrize("op", ["linear", "layer_norm", "cross_entropy"])
def test_each_is_wrong(op):
    for mutant in explanations(op):
        assert mutant.build is not getattr(functional, f"{op}_backward")
        assert mutant.describe().startswith("museum bug ")
