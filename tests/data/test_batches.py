"""Collating pads at the end and shifts the target by one."""

import numpy as np
import pytest

from npformer.data import Example, Vocabulary, collate
from npformer.errors import TokenError

VOCABULARY = Vocabulary.from_characters("abcxyz")  # a=3 b=4 c=5 x=6 y=7 z=8


def test_a_batch_by_hand():
    batch = collate([Example("ab", "xyz"), Example("c", "z")], VOCABULARY)
    np.testing.assert_array_equal(batch.src, [[3, 4, 2], [5, 2, 0]])
    np.testing.assert_array_equal(batch.tgt_in, [[1, 6, 7, 8], [1, 8, 0, 0]])
    np.testing.assert_array_equal(batch.tgt_out, [[6, 7, 8, 2], [8, 2, 0, 0]])


def test_empty_texts_are_an_end_alone():
    batch = collate([Example("", "")], VOCABULARY)
    assert [array.tolist() for array in batch] == [[[2]], [[1]], [[2]]]


@pytest.mark.parametrize("example", [Example("a!", "x"), Example("a", "x!")])
def test_a_character_without_an_id_is_refused(example):
    with pytest.raises(TokenError, match="'!'"):
        collate([example], VOCABULARY)
