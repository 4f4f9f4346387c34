"""Evaluation on a model whose answers are known: it says what a table tells it to say."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from npformer.data import EOS_ID, PAD_ID, Example, Vocabulary
from npformer.errors import DataError
from npformer.models import Transformer
from npformer.training import evaluation
from npformer.training.evaluation import evaluate

Host = np.ndarray[Any, Any]


@dataclass
class Saying:
    """The state of a Copier: what it reads, and what was said so far."""

    src: Host
    said: Host

    @property
    def batch(self):
        return int(self.src.shape[0])

    def reorder(self, rows):
        self.src, self.said = self.src[rows], self.said[rows]


class Copier(Transformer):
    """Says the source again. After a 'c', if it said that itself or was told so, it goes on with 'b' for ever."""

    def __init__(self, backend, size, c, b):
        self.backend = backend
        self.config = SimpleNamespace(pad_id=PAD_ID, positions="sinusoidal", src_vocab_size=size)
        self.size, self.c, self.b = size, c, b

    def start(self, src, max_len):
        return Saying(src, np.zeros((src.shape[0], 0), dtype=np.int64))

    def step(self, tokens, state):
        state.said = np.concatenate([state.said, tokens[:, None]], axis=1)
        return self.logits(state.said, state.src)[:, -1]

    def logits(self, tgt_in, memory):
        """Logits (B, T, V): 3 for what it says, 0 for all else."""
        logits = np.zeros((*tgt_in.shape, self.size))
        for row, t in np.ndindex(tgt_in.shape):
            said_c = self.c in tgt_in[row, : t + 1]
            said = self.b if said_c else memory[row, t] if t < memory.shape[1] else EOS_ID
            logits[row, t, said] = 3.0
        return logits

    def __call__(self, src, tgt_in):
        return self.logits(tgt_in, src)


@pytest.fixture
def vocabulary():
    return Vocabulary.from_characters("abc")


@pytest.fixture
def copier(numpy64, vocabulary):
    c, b = vocabulary.encode("cb")
    return Copier(numpy64, len(vocabulary), c, b)


EXAMPLES = [
    Example("abab", "abab"),  # all right
    Example("a", "a"),
    Example("ab", "aa"),  # one of three tokens is wrong, and so is the whole
    Example("acab", "acab"),  # a c b b b …: tokens 0, 1 and 3 are right, [EOS] is not
]
RIGHT_TOKENS, TOKENS = 5 + 2 + 2 + 3, 5 + 2 + 3 + 5


@pytest.mark.parametrize("batch_size", [250, 1, 2, 3])
def test_all_numbers_are_those_counted_by_hand(batch_size, copier, vocabulary, monkeypatch):
    """Whatever the size of batches: the loss is a mean over tokens, not over batches."""
    monkeypatch.setattr(evaluation, "BATCH_SIZE", batch_size)
    found = evaluate(copier, EXAMPLES, vocabulary, max_len=6)
    assert found.outputs == ("abab", "a", "ab", "acbbbb")  # in the order of the examples
    assert found.count == 4
    assert found.exact_match == 2 / 4
    assert found.token_accuracy == pytest.approx(RIGHT_TOKENS / TOKENS, rel=1e-15)
    rest = len(vocabulary) - 1
    surprise_right, surprise_wrong = np.log(1 + rest * np.exp(-3)), np.log(np.exp(3) + rest)
    loss = (RIGHT_TOKENS * surprise_right + (TOKENS - RIGHT_TOKENS) * surprise_wrong) / TOKENS
    assert found.loss == pytest.approx(loss, rel=1e-13)


def test_an_output_cut_at_max_len_is_no_match(copier, vocabulary):
    found = evaluate(copier, EXAMPLES[:2], vocabulary, max_len=3)
    assert found.outputs == ("aba", "a")
    assert found.exact_match == 0.5


def test_nothing_to_evaluate_is_refused(copier, vocabulary):
    with pytest.raises(DataError, match=r"^examples: expected at least one, got none"):
        evaluate(copier, [], vocabulary, max_len=6)
