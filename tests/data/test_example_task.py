"""Batches are padded at the end, their targets shifted; classes and tags are ids from 1; each example once an epoch."""

from typing import Literal

import numpy as np
import pytest

from npformer.data import SEQUENCE, Characters, Example, ExampleTask, Words, collate
from npformer.errors import DataError, TokenError

LETTERS = Characters.learn("abcxyz", special=SEQUENCE)  # a=3 b=4 c=5 x=6 y=7 z=8


def test_a_batch_by_hand():
    batch = collate([Example("ab", "xyz"), Example("c", "z")], LETTERS)
    np.testing.assert_array_equal(batch.src, [[3, 4, 2], [5, 2, 0]])
    np.testing.assert_array_equal(batch.tgt_in, [[1, 6, 7, 8], [1, 8, 0, 0]])
    np.testing.assert_array_equal(batch.tgt_out, [[6, 7, 8, 2], [8, 2, 0, 0]])


def test_empty_texts_are_an_end_alone():
    batch = collate([Example("", "")], LETTERS)
    assert [array.tolist() for array in batch] == [[[2]], [[1]], [[2]]]


TEXTS = [" ".join("abcde"[(n // 5**i) % 5] for i in range(1 + n % 4)) for n in range(60)]


def make(kind: Literal["classify", "tag"]):
    target = {
        "classify": lambda text: "odd" if len(text.split()) % 2 else "even",
        "tag": lambda text: " ".join("odd" if word in "ace" else "even" for word in text.split()),
    }[kind]
    examples = [Example(text, target(text)) for text in TEXTS]
    tokenizer = Words.learn(TEXTS)
    return ExampleTask(kind, kind, tokenizer, examples[:50], examples[50:], seed=0, digest="", classes=("odd", "even"))


def test_a_text_is_classified_behind_its_first_token():
    task = make("classify")
    batch = task.collate([Example("a b", "even"), Example("c", "odd")])
    a, b, c, first = map(task.vocabulary.id_of, ("a", "b", "c", "[CLS]"))
    assert batch[0].tolist() == [[first, a, b], [first, c, 0]]
    assert batch[1].tolist() == [2, 1]
    assert task.classes == ("[PAD]", "odd", "even")
    assert task.max_length == 5


def test_every_word_has_a_tag_and_padding_has_none():
    task = make("tag")
    batch = task.collate([Example("a b", "odd even"), Example("c", "odd")])
    a, b, c = map(task.vocabulary.id_of, "abc")
    assert batch[0].tolist() == [[a, b], [c, 0]]
    assert batch[1].tolist() == [[1, 2], [1, 0]]
    assert task.max_length == 4


def test_what_has_no_class_or_tag_is_refused():
    with pytest.raises(TokenError, match="target: expected one of odd, even, got 'prime'"):
        make("classify").collate([Example("a", "prime")])
    with pytest.raises(TokenError, match=r"got '\[PAD\]'"):
        make("classify").collate([Example("a", "[PAD]")])
    with pytest.raises(DataError, match="expected a tag for each of the 2 tokens of 'a b', got 1: 'odd'"):
        make("tag").collate([Example("a b", "odd")])
