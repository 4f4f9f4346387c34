"""What holds for every task: batches of a step, sides that do not meet, what makes no sense or is missing is named."""

import hashlib
import re
import sys
from functools import partial

import numpy as np
import pytest

from npformer.data import Batch, Example, ExampleTask, PairsTask, SequenceTask, Task, TokenBatch, Vocabulary
from npformer.data.own_text import continuing
from npformer.data.real import REAL_TASKS
from npformer.errors import ConfigError, DataError
from npformer.extras import install

OPTIONS = {
    "dates": {"count": 1_000},
    "numbers": {"count": 300},
    "scan": {},
    "language": {"count": 20},
    "tags": {"count": 5_000},
    "mlm": {"max_length": 24},
    "lm": {"max_length": 32},
}
PAIRS = [Example(f"{n}" + "x" * (n % 9), f"{n}{n}") for n in range(500)]
TEXTS = [" ".join(f"w{n}" for n in np.random.default_rng(side).integers(0, 97, 2_000)) for side in (0, 1)]
MAKERS = {name: partial(REAL_TASKS[name], **options) for name, options in OPTIONS.items()} | {
    "copy": partial(SequenceTask, "copy"),
    "sort": partial(SequenceTask, "sort", symbols=4, min_length=2, max_length=9),
    "pairs": partial(PairsTask, PAIRS, name="pairs", digest=""),
    "words": partial(continuing, "words", *TEXTS, digest="", tokenizer="words", max_pieces=4_000, max_length=20),
}
KINDS = {"language": "classify", "tags": "tag", "mlm": "masked", "lm": "causal", "words": "causal"}
MEMBERS = {"name", "kind", "tokenizer", "vocabulary", "classes", "max_length", "batch", "collate", "held_out"}
EVERY_TASK = pytest.mark.parametrize("name", MAKERS)


@pytest.fixture(scope="module")
def tasks():
    return {name: make(seed=0) for name, make in MAKERS.items()}


def test_every_task_is_tried():
    assert set(OPTIONS) == set(REAL_TASKS)
    assert {name for name in vars(Task) if not name.startswith("_")} == MEMBERS


def as_bytes(batch):
    return b"".join(array.tobytes() for array in batch)


@EVERY_TASK
def test_a_batch_is_a_function_of_seed_step_and_size(tasks, name):
    task, again, other = tasks[name], MAKERS[name](seed=np.int64(0)), MAKERS[name](seed=1)
    forwards = [as_bytes(task.batch(step, 8)) for step in range(1, 15)]
    again.held_out(50)
    backwards = [as_bytes(again.batch(np.int64(step), np.int32(8))) for step in range(14, 0, -1)]
    assert forwards == backwards[::-1]
    assert as_bytes(again.batch(1, 7)) == as_bytes(task.batch(1, 7))
    assert len(again.batch(1, 7)[0]) <= 7
    assert as_bytes(again.batch(1, 8)) == forwards[0], "another size in the same epoch leaves no trace"
    different = [*forwards, *(as_bytes(other.batch(step, 8)) for step in range(1, 15))]
    assert len(set(different)) == 28
    assert isinstance(task, SequenceTask) or task.held_out() == other.held_out()


@EVERY_TASK
def test_no_row_of_a_batch_takes_a_line_of_python(tasks, name, lines):
    counts = []
    for size in (4, 250):
        tasks[name].batch(1, size)  # plans an epoch
        counts.append(lines(lambda size=size: tasks[name].batch(2, size)))
    assert counts[0] == counts[1] > 20


@pytest.fixture
def lines():
    """lines(call): how many lines of Python the call runs, and calls; one that loops counts each time."""
    before = sys.gettrace()

    def counted(call):
        count = 0

        def trace(frame, event, _):
            nonlocal count
            count += 1
            return trace

        sys.settrace(trace)
        try:
            call()
        finally:
            sys.settrace(before)
        return count

    return counted


#: Of the batches of two seeds, four steps, two sizes: a run is resumed with those that it began with.
DIGESTS = {
    "copy": "8398a60349e64e07", "sort": "1adfb8971599d6b5", "pairs": "b27cc9552dabe6a7", "scan": "4c03d3333ff244d6",
    "words": "8a97913e4875a3f8",
}  # fmt: skip


@pytest.mark.parametrize("name", DIGESTS)
def test_batches_are_the_same_in_every_version(name):
    digest = hashlib.sha256()
    for seed in (0, 7):
        task = MAKERS[name](seed=seed)
        for step in (1, 2, 50, 2**40):
            for size in (1, 64):
                digest.update(as_bytes(task.batch(step, size)))
    assert digest.hexdigest()[:16] == DIGESTS[name]


@EVERY_TASK
def test_batches_keep_to_their_shapes_and_bounds(tasks, name):
    task = tasks[name]
    assert task.kind == KINDS.get(name, "translate")
    assert all(hasattr(task, member) for member in MEMBERS)
    batches = [task.batch(step, 16) for step in range(1, 12)]
    batches += [task.collate(task.held_out(10)), task.collate(task.held_out(11)[5:])]
    for batch in batches:
        *inputs, targets = batch
        assert all(array.dtype == np.int64 and 1 <= len(array) <= 16 for array in batch)
        assert all(array.flags.c_contiguous for array in batch if array.ndim == 2)
        assert all(array.shape[1] <= task.max_length and array.max() < len(task.vocabulary) for array in inputs)
        assert targets.max() < (len(task.classes) or len(task.vocabulary))
        assert (targets > 0).any(axis=-1).all()
        if isinstance(batch, TokenBatch):
            assert targets.shape == (batch.tokens.shape[:1] if task.kind == "classify" else batch.tokens.shape)
            continue
        assert isinstance(batch, Batch)
        assert (batch.tgt_in[:, 0] == 1).all()
        assert np.array_equal(batch.tgt_in[:, 1:], np.where(batch.tgt_out == 2, 0, batch.tgt_out)[:, :-1])
        for rows in (batch.src, batch.tgt_out):
            ends = (rows == 2).argmax(axis=1)
            assert ((rows == 0) == (np.arange(rows.shape[1]) > ends[:, None])).all()
            assert ((rows == 2).sum(axis=1) == 1).all()


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
    count = len(held_out)
    assert count >= 20
    assert len(set(held_out)) == count
    assert len(task.held_out(5)) == 5
    assert set(task.held_out(5)) <= set(held_out)
    if not isinstance(task.collate(held_out), TokenBatch) or isinstance(task, ExampleTask):
        steps = range(1, getattr(task, "train_size", 6_400) // 64 + 2)
        trained = {tuple(row[row > 0]) for step in steps for row in task.batch(step, 64)[0]}
        asked = {tuple(row[row > 0]) for row in task.collate(held_out)[0]}
        assert len(trained) > 100
        assert not asked & trained
    task.held_out().clear()
    assert len(task.held_out()) == count, "the list is the caller's"


@EVERY_TASK
def test_held_out_texts_are_in_the_vocabulary(tasks, name):
    texts = [example.source for example in tasks[name].held_out()]
    coverage = tasks[name].tokenizer.coverage(texts)
    assert coverage.covered >= 0.99 * coverage.total, str(coverage)


@EVERY_TASK
def test_numbers_below_their_bounds_are_refused(tasks, name):
    task = tasks[name]
    for call, message in (
        (lambda: MAKERS[name](seed=-1), "seed: expected an integer >= 0, got -1"),
        (lambda: task.batch(0, 4), "step: expected an integer >= 1, got 0"),
        (lambda: task.batch("1", 4), "step: expected an integer >= 1, got '1'"),
        (lambda: task.batch(1, 0), "batch_size: expected an integer >= 1, got 0"),
        (lambda: task.held_out(0), "count: expected an integer >= 1, got 0"),
    ):
        with pytest.raises(ConfigError, match=message):
            call()
    with pytest.raises(DataError, match="examples: expected at least one, got none"):
        task.collate([])


@pytest.mark.parametrize(
    ("name", "package"), [("dates", "babel"), ("tags", "babel"), ("language", "babel"), ("numbers", "num2words")]
)
def test_a_missing_package_is_named_with_its_extra(monkeypatch, name, package):
    monkeypatch.setattr("npformer.data.real.extra.find_spec", lambda package: None)
    with pytest.raises(
        ConfigError,
        match=rf"expected the package {package}, which makes the data of {name},.*{re.escape(install('data'))}$",
    ):
        MAKERS[name](seed=0)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("dates", {"count": 999}, "count: expected an integer from 1000 to 1000000, got 999"),
        ("numbers", {"below": 99}, "below: expected an integer from 100 to 1000000000, got 99"),
        ("numbers", {"count": 0}, "count: expected an integer from 100 to 1000000, got 0"),
        ("scan", {"split": "hard"}, "split: expected one of simple, length, jump, got 'hard'"),
        ("language", {"count": 1}, "count: expected an integer from 20 to 1000000, got 1"),
        ("lm", {"max_length": 1}, "max_length: expected an integer >= 2, got 1"),
        ("mlm", {"max_length": 10**7}, r"max_length: expected at most \d+, the tokens of the training text of mlm"),
        ("copy", {"symbols": 1}, "symbols: expected an integer from 2 to 26, got 1"),
        ("copy", {"symbols": 27}, "symbols: expected an integer from 2 to 26, got 27"),
        ("copy", {"min_length": 0}, "min_length: expected an integer from 1 to 2048, got 0"),
        ("copy", {"min_length": 5, "max_length": 4}, "max_length: expected an integer from 5 to 2048, got 4"),
        ("copy", {"max_length": 10**9}, "max_length: expected an integer from 1 to 2048, got 1000000000"),
        ("copy", {"max_length": 4.0}, "max_length: expected an integer from 1 to 2048, got 4.0"),
        ("copy", {"max_length": 1}, "got none to hold out; allow more symbols or a larger max_length"),
        ("copy", {"symbols": 2, "max_length": 2}, "got none to hold out; allow more symbols or a larger max_length"),
        ("copy", {"seed": True}, "seed: expected an integer >= 0, got True"),
        ("copy", {"name": "shuffle"}, "task: expected one of copy, reverse, sort, got 'shuffle'"),
        ("pairs", {"held_out_fraction": 1e-9}, "none is held-out at held_out_fraction=1e-09; raise it, or add lines"),
        ("pairs", {"held_out_fraction": 1 - 1e-9}, "none is training at held_out_fraction=.*; lower it, or add lines"),
    ],
)
def test_options_that_make_no_sense_are_refused(name, options, message):
    make = MAKERS[name]
    if "name" in options:
        make = SequenceTask
    with pytest.raises((ConfigError, DataError), match=message):
        make(**({"seed": 0} | options))


@EVERY_TASK
def test_another_tokenizer_gives_other_ids_and_the_same_texts(name):
    """With the vocabulary of another run first, as where a run starts from that."""
    task = MAKERS[name](seed=0)
    pieces, first, classes = task.vocabulary.pieces, task.batch(3, 8), task.classes
    task.retokenize(task.tokenizer, classes)
    assert as_bytes(task.batch(3, 8)) == as_bytes(first)
    special = len(task.vocabulary.special_ids)
    more = (*pieces[:special], "\N{SNOWMAN}", *pieces[special:])
    task.retokenize(type(task.tokenizer)(Vocabulary(more)), classes)
    again = task.batch(3, 8)
    moved = np.array([more.index(piece) for piece in pieces])
    inputs = 1 if name in ("language", "tags") else len(first)  # the others are classes
    for ids, were in zip(again[:inputs], first[:inputs], strict=True):
        if name != "mlm":  # what replaces a token is drawn from all
            assert np.array_equal(ids, moved[were])
    assert task.vocabulary.pieces == more
