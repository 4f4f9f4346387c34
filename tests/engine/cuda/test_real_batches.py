"""Batches of the real tasks, of many shapes: most steps are replayed, and memory is that of the largest shape."""

import numpy as np
import pytest

from npformer.backend.select import cupy_backend
from npformer.models import build_model
from npformer.run.assemble import make_step, make_task
from npformer.run.options import DataOptions, RunOptions, complete
from npformer.run.tasks import with_defaults
from tests.engine.cupy import emulated

#: Task: how many of 500 steps are replayed, at least. The others run, or are recorded, since a shape is new.
REPLAYED = {"scan": 400, "language": 450}
#: Pool of all shapes, beside that of the largest alone.
MOST_MEMORY = 1.3


@pytest.fixture
def asked(runtimes):
    """asked(name, **model): the task of that name and its options, with the model's changed."""

    def found(name, **model):
        sections = with_defaults({"run": {"task": name}, "data": {}, "model": model, "training": {}})
        task = make_task(RunOptions(**sections["run"]), DataOptions(**sections["data"]))
        return task, complete(sections, len(task.vocabulary), task.max_length, len(task.classes))

    return found


def new_step(options):
    """A training step on the machine."""
    return make_step(build_model(options.model, backend=cupy_backend("float32"), seed=1), options)


def memory_needed(machine, batches, options):
    """(bytes that training on batches takes beside the model, at most; the step)."""
    step = new_step(options)
    machine.most_used = before = machine.used
    for batch in batches:
        step(*batch)
    return machine.most_used - before, step


@pytest.mark.parametrize("name", REPLAYED)
def test_most_of_500_steps_are_replayed_in_the_memory_of_one(name, asked, monkeypatch):
    """At real sizes; nothing is computed."""
    machine = emulated.uncomputed(monkeypatch).machine
    task, options = asked(name)
    batches = [task.batch(i + 1, options.training.batch_size) for i in range(500)]
    needed, step = memory_needed(machine, batches, options)
    assert step.runner.compute.refusal is None
    assert machine.launches - machine.records >= REPLAYED[name]
    by_size = sorted(batches, key=lambda batch: sum(ids.size for ids in batch))
    largest = {tuple(ids.shape for ids in batch): batch for batch in by_size}  # of each shape one
    alone = [memory_needed(machine, [batch, batch], options)[0] for batch in list(largest.values())[-4:]]
    assert needed <= MOST_MEMORY * max(alone)


def test_batches_that_grow_longer_and_longer_need_the_memory_of_the_longest(asked, monkeypatch):
    """No free memory is large enough for the next ones: without a bound the pool is several times as large."""
    machine = emulated.uncomputed(monkeypatch).machine
    _, options = asked("dates")
    batches = [[np.ones((64, length), np.int64)] * 3 for length in range(5, 45, 2)]
    needed, _ = memory_needed(machine, batches, options)
    assert needed <= MOST_MEMORY * memory_needed(machine, batches[-1:] * 2, options)[0]
