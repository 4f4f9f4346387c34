"""What holds for every task on real data: batches of a step, sides that do not meet, what is missing is named."""

import numpy as np
import pytest

from npformer.data import Batch, ExampleTask, TokenBatch
from npformer.data.real import REAL_TASKS
from npformer.errors import ConfigError

SMALL = {
    "dates": {"count": 1_000},
    "numbers": {"count": 300},
    "scan": {},
    "language": {"count": 20},
    "tags": {"count": 5_000},
    "mlm": {"max_length": 24},
    "lm": {"max_length": 32},
}
KINDS = {"dates": "translate", "numbers": "translate", "scan": "translate", "language": "classify", "tags": "tag",
         "mlm": "masked", "lm": "causal"}  # fmt: skip


@pytest.fixture(scope="module")
def tasks():
    return {name: REAL_TASKS[name](seed=0, **options) for name, options in SMALL.items()}


EVERY_TASK = pytest.mark.parametrize("name", REAL_TASKS)


def test_every_task_is_tried():
    assert set(SMALL) == set(REAL_TASKS) == set(KINDS)


@EVERY_TASK
def test_a_batch_is_a_function_of_seed_and_step(tasks, name):
    task, again, other = tasks[name], REAL_TASKS[name](seed=0, **SMALL[name]), REAL_TASKS[name](seed=1, **SMALL[name])
    assert task.kind == KINDS[name]
    for step in (7, 2, 7):
        ours, theirs = task.batch(step, 8), again.batch(step, 8)
        assert all(np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))
    different = [task.batch(7, 8), task.batch(8, 8), other.batch(7, 8)]
    assert len({b"".join(array.tobytes() for array in batch) for batch in different}) == 3
    assert task.held_out() == other.held_out()


@EVERY_TASK
def test_batches_keep_to_their_shapes_and_bounds(tasks, name):
    task = tasks[name]
    batches = [task.batch(step, 16) for step in range(1, 12)]
    batches += [task.collate(task.held_out(10)), task.collate(task.held_out(11)[5:])]
    for batch in batches:
        *inputs, targets = batch
        assert all(array.dtype == np.int64 for array in batch)
        assert all(array.shape[1] <= task.max_length and array.max() < len(task.vocabulary) for array in inputs)
        assert targets.max() < (len(task.classes) or len(task.vocabulary))
        assert (targets > 0).any(axis=-1).all()
        if isinstance(batch, TokenBatch):
            assert targets.shape == (batch.tokens.shape[:1] if task.kind == "classify" else batch.tokens.shape)
        else:
            assert isinstance(batch, Batch)
            assert np.array_equal(batch.tgt_in[:, 1:], np.where(batch.tgt_out == 2, 0, batch.tgt_out)[:, :-1])


@EVERY_TASK
def test_max_length_is_that_of_the_longest(tasks, name):
    task = tasks[name]
    steps = range(1, getattr(task, "train_size", 800) // 16 + 2)
    longest = max(array.shape[1] for step in steps for array in task.batch(step, 16) if array.ndim == 2)
    held_out = max(array.shape[1] for array in task.collate(task.held_out()) if array.ndim == 2)
    assert max(longest, held_out) == task.max_length


@EVERY_TASK
def test_held_out_examples_are_distinct_and_not_trained_on(tasks, name):
    task = tasks[name]
    held_out = task.held_out()
    assert len(held_out) >= 20
    assert len(set(held_out)) == len(held_out)
    assert len(task.held_out(5)) == 5
    assert set(task.held_out(5)) <= set(held_out)
    if isinstance(task, ExampleTask):
        trained = {
            tuple(row[row > 0]) for step in range(1, task.train_size // 64 + 2) for row in task.batch(step, 64)[0]
        }
        asked = {tuple(row[row > 0]) for row in task.collate(held_out)[0]}
        assert len(trained) > 100
        assert not asked & trained


@EVERY_TASK
def test_held_out_texts_are_in_the_vocabulary(tasks, name):
    texts = [example.source for example in tasks[name].held_out()]
    coverage = tasks[name].tokenizer.coverage(texts)
    assert coverage.covered >= 0.99 * coverage.total, str(coverage)


@pytest.mark.parametrize(
    ("name", "package"), [("dates", "babel"), ("tags", "babel"), ("language", "babel"), ("numbers", "num2words")]
)
def test_a_missing_package_is_named_with_its_extra(monkeypatch, name, package):
    monkeypatch.setattr("npformer.data.real.extra.find_spec", lambda package: None)
    with pytest.raises(
        ConfigError, match=rf"expected the package {package}, which makes the data of {name},.*npformer\[data"
    ):
        REAL_TASKS[name](seed=0, **SMALL[name])


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("dates", {"count": 999}, "count: expected a whole number from 1000 to 1000000, got 999"),
        ("numbers", {"below": 99}, "below: expected a whole number from 100 to 1000000000, got 99"),
        ("numbers", {"count": 0}, "count: expected a whole number from 100 to 1000000, got 0"),
        ("scan", {"split": "hard"}, "split: expected one of simple, length, jump, got 'hard'"),
        ("language", {"count": 1}, "count: expected a whole number from 20 to 1000000, got 1"),
        ("lm", {"max_length": 1}, "max_length: expected a whole number >= 2, got 1"),
        ("mlm", {"max_length": 10**7}, r"max_length: expected at most \d+, the tokens of the training text of mlm"),
        ("lm", {"seed": -1}, "seed: expected a whole number >= 0, got -1"),
    ],
)
def test_options_that_make_no_sense_are_refused(name, options, message):
    with pytest.raises(ConfigError, match=message):
        REAL_TASKS[name](**options)
