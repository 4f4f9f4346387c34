"""The models of the experiments: their gradients, and which tokens each output depends on."""

from functools import partial

import numpy as np
import pytest

import npformer as npf
from examples.experiments.rivals import ConvTranslator, GruTranslator
from examples.experiments.tagger import Tagger
from npformer.layers import BatchNorm, LayerNorm

SRC = np.array([[3, 4, 5, 2, 0], [6, 3, 2, 0, 0]])
TGT = np.array([[1, 5, 4], [1, 3, 6]])
RIVALS = {"recurrent": partial(GruTranslator, 7, 4), "conv": partial(ConvTranslator, 7, 4, 2, 3)}


@pytest.mark.parametrize("target", [TGT, np.tile(TGT, (1, 3))], ids=["shorter", "longer"])
@pytest.mark.parametrize("make", RIVALS.values(), ids=RIVALS)
def test_translators_have_right_gradients(make, target, numpy64):
    assert npf.gradcheck(make(backend=numpy64), SRC, target, elementwise=False).ok


@pytest.mark.parametrize("make", RIVALS.values(), ids=RIVALS)
def test_no_target_sees_a_later_one(make, numpy64):
    model = make(backend=numpy64)
    other = TGT.copy()
    other[:, 2] = 2
    np.testing.assert_array_equal(model(SRC, TGT)[:, :2], model(SRC, other)[:, :2])
    assert np.abs(model(SRC, TGT)[:, 2] - model(SRC, other)[:, 2]).max() > 1e-3


def test_padding_of_the_source_changes_nothing_for_a_gru(numpy64):
    model = GruTranslator(7, 4, backend=numpy64)
    np.testing.assert_array_equal(model(SRC[:, :4], TGT), model(np.pad(SRC[:, :4], ((0, 0), (0, 3))), TGT))


@pytest.mark.parametrize("norm", [LayerNorm, BatchNorm])
@pytest.mark.parametrize("after", [False, True])
def test_taggers_have_right_gradients(norm, after, numpy64):
    make = partial(norm, 4, backend=numpy64)
    model = Tagger(7, 4, 1, num_heads=2, norm=make, dropout=0.3, after=after, backend=numpy64)
    assert npf.gradcheck(model, SRC, key=npf.RandomKey(0), elementwise=False).ok
