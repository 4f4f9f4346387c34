"""Generated words: pure batches, held-out words never trained on, and no endless loop."""

import itertools

import numpy as np
import pytest

from npformer.data import SEQUENCE, Characters, Example, SequenceTask, Vocabulary, Words, collate
from npformer.errors import ConfigError, TokenError

LETTERS = "abcdefghijklmnopqrstuvwxyz"
TARGETS = {
    "copy": lambda s: s,
    "reverse": lambda s: s[::-1],
    "sort": lambda s: "".join(sorted(s)),
}


def texts(task, rows):
    return [task.tokenizer.decode(row) for row in rows]


def train_sources(task, steps, batch_size):
    return {source for step in range(1, steps + 1) for source in texts(task, task.batch(step, batch_size).src)}


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("tokenizer", [Characters, Words])
def test_batches_are_those_of_their_texts_and_targets_what_the_name_says(name, tokenizer):
    """Whether a word's ids are its letters', with one that is unknown, or it is encoded whole."""
    task = SequenceTask(name, seed=3, symbols=4, max_length=5)
    src, _, tgt_out = task.batch(2, 50)
    examples = list(map(Example, texts(task, src), texts(task, tgt_out)))
    assert all(target == TARGETS[name](source) for source, target in [*examples, *task.held_out(50)])
    vocabulary = Vocabulary((*SEQUENCE, "[UNK]", *"cab", "cb", "bd", "db"))
    task.retokenize(tokenizer(vocabulary), ())
    for ids, expected in zip(task.batch(2, 50), collate(examples, task.tokenizer), strict=True):
        np.testing.assert_array_equal(ids, expected)
        assert (ids == vocabulary.id_of("[UNK]")).any()


def test_a_letter_without_an_id_is_refused_with_its_word():
    task = SequenceTask("copy", seed=0, symbols=3)
    task.retokenize(Characters(Vocabulary((*SEQUENCE, *"ab"))), ())
    with pytest.raises(TokenError, match=r"'c' in '[abc]+' has no pieces in the vocabulary"):
        task.batch(1, 32)


def test_the_side_of_a_word_depends_on_the_word_alone():
    small = {source for source, _ in SequenceTask("copy", seed=0, symbols=3, max_length=5).held_out(10**6)}
    large = {source for source, _ in SequenceTask("sort", seed=7, symbols=4, max_length=7).held_out(10**6)}
    assert {word for word in large if len(word) <= 5 and set(word) <= set("abc")} == small


@pytest.mark.parametrize("chunk", [4096, 16])
def test_both_sides_together_are_all_words(chunk, monkeypatch):
    monkeypatch.setattr("npformer.data.sequences._CHUNK", chunk)  # 16: draws stop early, the rest is listed
    task = SequenceTask("copy", seed=0, symbols=3, min_length=2, max_length=4)
    words = {"".join(word) for length in (2, 3, 4) for word in itertools.product("abc", repeat=length)}
    held_out = {source for source, _ in task.held_out(10**6)}
    assert train_sources(task, steps=60, batch_size=64) == words - held_out
    assert held_out < words


def test_about_one_word_in_sixteen_is_held_out_at_every_length():
    for length, symbols in [(4, 26), (8, 4), (17, 2)]:
        task = SequenceTask("copy", seed=0, symbols=symbols, min_length=length, max_length=length)
        total = symbols**length
        share = len(task.held_out(total)) / total
        assert abs(share - 1 / 16) < 5 * np.sqrt(15 / 256 / total), (length, symbols, share)


def test_held_out_examples_are_distinct_and_begin_alike_whatever_the_count():
    task = SequenceTask("reverse", seed=4)
    many = task.held_out(3000)
    assert len({source for source, _ in many}) == 3000
    assert task.held_out(10) == many[:10]
    assert task.held_out() == many[:1000]
    assert SequenceTask("reverse", seed=5).held_out(10) != many[:10]


def test_fewer_held_out_words_than_asked_are_all_there_is():
    task = SequenceTask("copy", seed=0, symbols=2, max_length=8)
    words = task.held_out(10**9)
    assert 1 < len(words) == len(set(words)) < 2**9
    assert task.held_out(len(words) + 1) == words


def test_lengths_are_uniform_and_letters_are_those_asked_for():
    task = SequenceTask("copy", seed=0, symbols=20, min_length=3, max_length=6)
    words = [word for step in range(1, 41) for word in texts(task, task.batch(step, 100).src)]
    counts = np.bincount([len(word) for word in words], minlength=8)
    assert counts[:3].sum() == counts[7:].sum() == 0
    assert (abs(counts[3:7] - 1000) < 150).all(), counts
    assert set("".join(words)) == set(LETTERS[:20])
    assert task.vocabulary.pieces[3:] == tuple(LETTERS[:20])


def test_a_space_without_training_words_is_refused(monkeypatch):
    monkeypatch.setattr("npformer.data.sequences._is_held_out", lambda words: np.ones(len(words), bool))
    with pytest.raises(ConfigError, match="got none to train on"):
        SequenceTask("copy", seed=0, symbols=2, max_length=3)
