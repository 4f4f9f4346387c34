"""Evaluation: a model says what a table tells it to say, and numbers are the same as counted by hand, row by row."""

import math
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest

from npformer.backend.select import cupy_backend
from npformer.data import (
    EOS_ID,
    PAD_ID,
    SEQUENCE,
    Characters,
    Example,
    ExampleTask,
    SpelledWords,
    TextTask,
    Vocabulary,
    WordPiece,
    Words,
)
from npformer.errors import DataError
from npformer.models import Transformer
from npformer.optim import Adam
from npformer.training import TrainStep, evaluation
from npformer.training.evaluation import Evaluation, evaluate, evaluate_task
from tests.engine.cuda.host_runtime import compiler_problem
from tests.engine.cupy import emulated
from tests.training.runs import model_of


@dataclass
class Saying:
    """The state of a Copier: what it reads, and what was said so far."""

    src: np.ndarray
    said: np.ndarray

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
            token = self.b if said_c else memory[row, t] if t < memory.shape[1] else EOS_ID
            logits[row, t, token] = 3.0
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
    result = evaluate(copier, EXAMPLES, vocabulary, max_len=6)
    assert result.outputs == ("abab", "a", "ab", "acbbbb")  # in the order of the examples
    assert result.count == 4
    assert result.exact_match == 2 / 4
    assert result.token_accuracy == pytest.approx(RIGHT_TOKENS / TOKENS, rel=1e-15)
    rest = len(vocabulary) - 1
    surprise_right, surprise_wrong = np.log(1 + rest * np.exp(-3)), np.log(np.exp(3) + rest)
    loss = (RIGHT_TOKENS * surprise_right + (TOKENS - RIGHT_TOKENS) * surprise_wrong) / TOKENS
    assert result.loss == pytest.approx(loss, rel=1e-13)


def test_an_output_cut_at_max_len_is_no_match(copier, vocabulary):
    evaluation = evaluate(copier, EXAMPLES[:2], vocabulary, max_len=3)
    assert evaluation.outputs == ("aba", "a")
    assert evaluation.exact_match == 0.5


def test_nothing_to_evaluate_is_refused(copier, vocabulary):
    with pytest.raises(DataError, match=r"^examples: expected at least one, got none"):
        evaluate(copier, [], vocabulary, max_len=6)


SIZES = {"d_model": 8, "num_heads": 2, "d_ff": 8, "dropout": 0.0}
WORDS = ["ab ba", "b a c", "c", "ac ab a b", "bb cc a", "b c"]
TEXT = "a cab is a cab. a bac is no cab, but a bac is a bac. " * 3


def classify():
    examples = [Example(text, name) for text, name in zip(WORDS, "xyyxxy", strict=True)]
    tokenizer = Characters.learn(WORDS)
    return ExampleTask("c", "classify", tokenizer, examples, examples, seed=0, digest="", classes=("x", "y"))


def tag():
    examples = [Example(text, " ".join("xyz"[len(word) % 3] for word in text.split())) for text in WORDS]
    tokenizer = Words.learn(WORDS)
    return ExampleTask("t", "tag", tokenizer, examples, examples, seed=0, digest="", classes=("x", "y", "z"))


def causal():
    return TextTask("l", "causal", Characters.learn(TEXT), TEXT, TEXT, seed=0, digest="", max_length=9)


def words():
    tokenizer = SpelledWords.learn(TEXT, 60)
    return TextTask("w", "causal", tokenizer, TEXT, TEXT, seed=0, digest="", max_length=9)


def masked():
    tokenizer = WordPiece.learn([TEXT], 60)
    return TextTask("m", "masked", tokenizer, TEXT, TEXT, seed=0, digest="", max_length=9)


def translate():
    examples = [Example(text, text) for text in WORDS]
    tokenizer = Words.learn(WORDS, special=SEQUENCE)
    return ExampleTask("p", "translate", tokenizer, examples, examples, seed=0, digest="")


def model_for(task, backend):
    return model_of(task.kind, len(task.vocabulary), len(task.classes), backend, **SIZES)


SINGLE = [classify, tag, masked, causal, words]
TASKS = pytest.mark.parametrize("make", SINGLE)


@TASKS
def test_long_texts_make_batches_smaller(make, numpy64, monkeypatch):
    task, sizes = make(), []
    model, collate = model_for(task, numpy64), type(task).collate
    whole = evaluate_task(model, task, 5)
    monkeypatch.setattr(evaluation, "TOKENS", 2 * task.max_length + 1)
    monkeypatch.setattr(type(task), "collate", lambda task, texts: sizes.append(len(texts)) or collate(task, texts))
    assert evaluate_task(model, task, 5).loss == pytest.approx(whole.loss, rel=1e-12)
    assert sizes == [2, 2, 1]


@pytest.mark.parametrize("make", [*SINGLE, translate])
@pytest.mark.parametrize("batch_size", [1, 2, 250])
def test_numbers_are_those_counted_by_hand(make, batch_size, numpy64, monkeypatch):
    monkeypatch.setattr(evaluation, "BATCH_SIZE", batch_size)
    task = make()
    model, examples = model_for(task, numpy64), task.held_out(5)
    step = TrainStep(model, Adam(model.arena, lr=0.02))
    for number in range(1, 40):  # until it is right now and then
        step(*task.batch(number, 8))
    surprise, right = [], []
    least = 0 if task.kind == "translate" else 1  # the others never answer [PAD]
    for example in examples:
        *inputs, targets = task.collate([example])
        logits = np.atleast_2d(model(*inputs)[0])
        p = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
        asked = [(row, target) for row, target in zip(p, np.atleast_1d(targets[0]), strict=True) if target != 0]
        surprise += [-math.log(row[target]) for row, target in asked]
        right.append([int(np.argmax(row[least:])) + least == target for row, target in asked])
    result = evaluate_task(model, task, 5)
    assert (result.kind, result.count, len(result.outputs)) == (task.kind, 5, 5)
    assert result.loss == pytest.approx(np.mean(surprise), rel=1e-12)
    assert result.token_accuracy == pytest.approx(np.mean([each for row in right for each in row]), rel=1e-12)
    if task.kind == "translate":  # free-running; words are cut by the task's tokenizer, not letter by letter
        assert all(set(output.split()) <= set(task.vocabulary.pieces) for output in result.outputs)
    else:
        assert result.exact_match == np.mean([all(row) for row in right])
        assert result.exact_match > 0 or task.kind in ("masked", "causal")
    if task.kind == "causal":
        characters = sum(len(example.source) for example in examples)
        assert (characters > len(surprise)) == (make is words)
        assert result.bits_per_character == pytest.approx(sum(surprise) / math.log(2) / characters, rel=1e-12)
    else:
        assert math.isnan(result.bits_per_character)
    if task.kind in ("classify", "tag"):
        assert np.mean(
            [output == example.target for output, example in zip(result.outputs, examples, strict=True)]
        ) == (result.exact_match)


@pytest.mark.skipif(compiler_problem() is not None, reason=str(compiler_problem()))
@pytest.mark.parametrize("make", [*SINGLE, translate])
def test_a_device_is_asked_for_ids_alone(make, numpy64, monkeypatch):
    """With the result of the host, and one loss and one array of ids for each batch."""
    task, machine, read = make(), emulated.installed(monkeypatch).machine, []
    inner = machine.read
    monkeypatch.setattr(machine, "read", lambda x: read.append(x.shape) or inner(x))
    monkeypatch.setattr(evaluation, "BATCH_SIZE", 3)
    monkeypatch.setattr(evaluation, "greedy", lambda model, src, *_, **__: src)  # which is tried elsewhere
    expected = evaluate_task(model_for(task, numpy64), task, 5)
    model = model_for(task, cupy_backend("float64", "cuda"))
    del read[:]
    found = evaluate_task(model, task, 5)
    examples = task.held_out(5)
    if task.kind == "translate":  # short ones first
        examples.sort(key=lambda example: len(example.source))
    ids = [task.collate(batch)[-1].shape for batch in (examples[:3], examples[3:])]
    assert sorted(read) == sorted([*ids, (), ()])
    assert found.loss == pytest.approx(expected.loss, rel=1e-12)
    assert replace(found, loss=0, bits_per_character=0) == replace(expected, loss=0, bits_per_character=0)


def test_padding_is_never_an_answer(numpy64):
    """Even if the model is sure of it."""
    task = classify()
    model = model_for(task, numpy64)
    dict(model.named_parameters())["head.bias"].data[...] = [100.0, 0.0, 0.0]
    assert set(evaluate_task(model, task, 6).outputs) <= {"x", "y"}


def test_outputs_of_hidden_words_are_the_text_with_them_filled_in(numpy64):
    task = masked()
    model, examples = model_for(task, numpy64), task.held_out(3)
    outputs = evaluate_task(model, task, 3).outputs
    tokens, targets = task.collate(examples)
    filled = np.where(targets != 0, 1 + np.argmax(model(tokens)[..., 1:], axis=-1), tokens)
    assert list(outputs) == [task.tokenizer.decode(row) for row in filled]
    assert "[MASK]" not in "".join(outputs)


@pytest.mark.parametrize(
    ("kind", "measures", "score"),
    [
        ("translate", {"token_accuracy": 0.5, "exact_match": 0.25}, 0.2505),
        ("classify", {"accuracy": 0.25}, 0.2505),
        ("tag", {"token_accuracy": 0.5, "exact_match": 0.25}, 0.2505),
        ("masked", {"token_accuracy": 0.5}, 0.5),
        ("causal", {"token_accuracy": 0.5, "bits_per_character": 3.0}, -2.0),
    ],
)
def test_what_is_told_of_each_kind_and_what_is_best(kind, measures, score):
    evaluation = Evaluation(2.0, 0.5, 0.25, 4, (), kind, 3.0)
    assert evaluation.measures == measures
    assert evaluation.score == pytest.approx(score, rel=1e-12)
