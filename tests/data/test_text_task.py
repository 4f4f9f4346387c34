"""Windows: whole units, from anywhere in training and one after the other held out; what is masked, and how often."""

from typing import Literal

import numpy as np
import pytest

from npformer.data import Characters, Example, TextTask, WordPiece

WORDS = [f"{a}{b}{c}" for a in "abcdefgh" for b in "aeiou" for c in ("", "n", "ck", "rst")]
TRAIN = " ".join(np.random.default_rng(1).choice(WORDS, 2_000))
HELD_OUT = " ".join(np.random.default_rng(2).choice(WORDS, 600))


def make(kind: Literal["masked", "causal"], *, max_length=20, seed=0):
    tokenizer = Characters.learn([TRAIN]) if kind == "causal" else WordPiece.learn([TRAIN], 60)
    return TextTask(kind, kind, tokenizer, TRAIN, HELD_OUT, seed=seed, digest="", max_length=max_length)


def test_a_causal_window_is_asked_for_as_a_whole():
    task = make("causal")
    for batch in (task.batch(3, 16), task.collate(task.held_out(5))):
        assert (batch.tokens[:, 0] == 1).all()
        assert np.array_equal(batch.tokens[:, 1:], batch.targets[:, :-1])
        assert batch.targets.shape[1] == 20
    assert all(task.tokenizer.decode(row) in TRAIN for row in task.batch(3, 16).targets)


def test_training_windows_begin_anywhere():
    text = TRAIN[:300]
    task = TextTask("lm", "causal", Characters.learn([text]), text, HELD_OUT, seed=0, digest="", max_length=20)
    rows = {task.tokenizer.decode(row) for step in range(1, 100) for row in task.batch(step, 64).targets}
    assert rows == {text[i : i + 20] for i in range(281)}


def test_held_out_windows_follow_each_other_and_are_spread_if_they_are_to_be_few():
    task = make("causal")
    windows = [source for source, _ in task.held_out()]
    assert "".join(windows) == HELD_OUT
    assert [source for source, _ in task.held_out(4)] == [windows[i * len(windows) // 4] for i in range(4)]


def test_masked_windows_have_whole_words():
    task = make("masked")
    assert " ".join(source for source, _ in task.held_out()) == HELD_OUT
    for step in range(1, 50):
        batch = task.batch(step, 16)
        text = np.where(batch.targets > 0, batch.targets, batch.tokens)
        for row in text:
            words = task.tokenizer.decode(row)
            assert f" {words} " in f" {TRAIN} "
            assert task.tokenizer.encode(words) == row[row > 0].tolist()


def masked_shares(batches, mask):
    """Of all tokens those asked for; of these those hidden, and those replaced by another."""
    tokens, targets = (np.concatenate([b[i].ravel() for b in batches]) for i in (0, 1))
    asked = targets > 0
    hidden = (tokens == mask) & asked
    assert (tokens == mask).sum() == hidden.sum()
    replaced = asked & ~hidden & (tokens != targets)
    return asked.sum() / (tokens > 0).sum(), hidden.sum() / asked.sum(), replaced.sum() / asked.sum()


@pytest.mark.parametrize("training", [True, False])
def test_of_a_hundred_tokens_fifteen_are_asked_for_and_twelve_hidden(training):
    task = make("masked", max_length=40)
    mask = task.vocabulary.id_of("[MASK]")
    if training:
        batches = [task.batch(step, 64) for step in range(1, 41)]
    else:
        texts = [Example(" ".join(WORDS[i:] + WORDS[:i]), "") for i in range(len(WORDS))]
        batches = [task.collate(texts)]
    asked, hidden, replaced = masked_shares(batches, mask)
    assert asked == pytest.approx(0.15, abs=0.01)
    assert hidden == pytest.approx(0.8, abs=0.02)
    assert replaced == pytest.approx(0.1, abs=0.02)
    tokens = np.concatenate([batch.tokens.ravel() for batch in batches])
    assert set(tokens[tokens != mask]).isdisjoint(task.vocabulary.special_ids - {0})


def test_a_held_out_window_is_masked_alike_in_any_company():
    task = make("masked")
    windows = task.held_out()[:12]
    together = task.collate(windows)
    for i, window in enumerate(windows):
        alone = task.collate([window])
        width = alone.tokens.shape[1]
        assert np.array_equal(alone.tokens[0], together.tokens[i, :width])
        assert np.array_equal(alone.targets[0], together.targets[i, :width])
        assert (alone.targets > 0).any()
    assert len({tuple(np.flatnonzero(row)) for row in together.targets}) > 6
