"""Evaluation of models that read one sequence, against the same numbers counted by hand, row by row."""

import math

import numpy as np
import pytest

from npformer.data import SEQUENCE, Characters, Example, ExampleTask, TextTask, WordPiece, Words
from npformer.models import Decoder, DecoderConfig, Encoder, EncoderConfig
from npformer.optim import Adam
from npformer.training import TrainStep, evaluation
from npformer.training.evaluation import Evaluation, evaluate_task

SIZES = {"d_model": 8, "num_heads": 2, "num_layers": 1, "d_ff": 8, "dropout": 0.0}
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


def masked():
    tokenizer = WordPiece.learn([TEXT], 60)
    return TextTask("m", "masked", tokenizer, TEXT, TEXT, seed=0, digest="", max_length=9)


def model_for(task, backend):
    size = len(task.vocabulary)
    if task.kind == "causal":
        return Decoder(DecoderConfig(vocab_size=size, **SIZES), backend=backend, seed=3)
    head = {"classify": "sequence", "tag": "tokens", "masked": "masked"}[task.kind]
    classes = len(task.classes) or None
    return Encoder(EncoderConfig(vocab_size=size, head=head, num_classes=classes, **SIZES), backend=backend, seed=3)


TASKS = pytest.mark.parametrize("make", [classify, tag, masked, causal])


@TASKS
@pytest.mark.parametrize("batch_size", [1, 2, 250])
def test_numbers_are_those_counted_by_hand(make, batch_size, numpy64, monkeypatch):
    monkeypatch.setattr(evaluation, "BATCH_SIZE", batch_size)
    task = make()
    model, examples = model_for(task, numpy64), task.held_out(5)
    step = TrainStep(model, Adam(model.arena, lr=0.02))
    for number in range(1, 40):  # until it is right now and then
        step(*task.batch(number, 8))
    surprise = []
    right = []
    for example in examples:
        tokens, targets = task.collate([example])
        logits = np.atleast_2d(model(tokens)[0])
        p = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
        asked = [(row, target) for row, target in zip(p, np.atleast_1d(targets[0]), strict=True) if target != 0]
        surprise += [-math.log(row[target]) for row, target in asked]
        right.append([int(np.argmax(row[1:])) + 1 == target for row, target in asked])
    found = evaluate_task(model, task, 5)
    assert (found.kind, found.count, len(found.outputs)) == (task.kind, 5, 5)
    assert found.loss == pytest.approx(np.mean(surprise), rel=1e-12)
    assert found.token_accuracy == pytest.approx(np.mean([each for row in right for each in row]), rel=1e-12)
    assert found.exact_match == np.mean([all(row) for row in right])
    assert found.exact_match > 0 or task.kind in ("masked", "causal")
    if task.kind == "causal":
        characters = sum(len(example.source) for example in examples)
        assert found.bits_per_character == pytest.approx(sum(surprise) / math.log(2) / characters, rel=1e-12)
    else:
        assert math.isnan(found.bits_per_character)
    if task.kind in ("classify", "tag"):
        assert np.mean([output == example.target for output, example in zip(found.outputs, examples, strict=True)]) == (
            found.exact_match
        )


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
    found = Evaluation(2.0, 0.5, 0.25, 4, (), kind, 3.0)
    assert found.measures == measures
    assert found.score == pytest.approx(score, rel=1e-12)


def test_a_translation_of_words_is_measured_by_its_own_tokens(numpy64):
    """Words are cut by the task's tokenizer, not letter by letter."""
    from npformer.models import Transformer, TransformerConfig

    examples = [Example(text, text) for text in WORDS]
    task = ExampleTask("p", "translate", Words.learn(WORDS, special=SEQUENCE), examples, examples, seed=0, digest="")
    sizes = {name: value for name, value in SIZES.items() if name != "num_layers"}
    layers = {"num_encoder_layers": 1, "num_decoder_layers": 1}
    size = len(task.vocabulary)
    model = Transformer(TransformerConfig(size, size, **layers, **sizes), backend=numpy64, seed=3)
    found = evaluate_task(model, task, 6)
    batch = task.collate(examples)
    logits = model(batch.src, batch.tgt_in)
    right = (np.argmax(logits, axis=-1) == batch.tgt_out)[batch.tgt_out != 0]
    assert found.token_accuracy == pytest.approx(np.mean(right), rel=1e-12)
    assert all(set(output.split()) <= set(task.vocabulary.pieces) for output in found.outputs)
