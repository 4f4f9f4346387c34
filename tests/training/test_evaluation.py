"""Evaluation: numbers are the same as counted by hand, row by row."""

import math
from dataclasses import replace

import numpy as np
import pytest

from npformer.backend.select import cupy_backend
from npformer.data import (
    SEQUENCE,
    Characters,
    Example,
    ExampleTask,
    SpelledWords,
    TextTask,
    WordPiece,
    Words,
)
from npformer.decoding import greedy
from npformer.optim import Adam
from npformer.training import TrainStep, evaluation
from npformer.training.evaluation import Evaluation, evaluate_task
from tests.engine.cuda.host_runtime import compiler_problem
from tests.engine.cupy import emulated
from tests.run.runs import model_of

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
    if task.kind == "translate":  # free-running
        answers = [greedy(model, task.collate([example]).src, task.max_length)[0] for example in examples]
        assert result.outputs == tuple(map(task.tokenizer.decode, answers))
        right = [[output == example.target] for output, example in zip(result.outputs, examples, strict=True)]
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
