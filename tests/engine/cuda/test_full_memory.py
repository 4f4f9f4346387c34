"""A training with the device's memory full at some place: it goes on to the bit, or ends and was saved well."""

import operator
from functools import partial
from itertools import count
from typing import NamedTuple

import numpy as np
import pytest

from npformer.decoding import greedy
from npformer.engine.cupy import cupy_runtime
from npformer.errors import DeviceMemoryError
from npformer.run import RunDirectory, metrics
from npformer.run.assemble import assemble
from npformer.run.checkpoint import list_checkpoints, load_checkpoint
from npformer.run.trained import load_latest
from tests.engine.cupy import emulated
from tests.run.runs import SMALL, Told, small_sections, timeless

STEPS, EVALUATE, SAVE = 4, 4, 3
TRAINING = {
    "steps": STEPS, "batch_size": 4, "clip_norm": 0.5, "log_every": 1, "eval_every": EVALUATE,
    "save_every": SAVE, "eval_examples": 2, "final_examples": 2, "keep_last": 9,
}  # fmt: skip
DATA = {"symbols": 4, "min_length": 2, "max_length": 3}
#: A step of the second changes more than its parameters, and is not recorded.
MODELS = {"LayerNorm": {}, "BatchNorm": {"norm": "batch"}}
PARTS, SOME = 60, (0, 27, 41)  # of all the places: each is tried in one of them; and those of a sample
#: (place, how often memory was asked for) -> whether it is full.
FULL = {"for a moment": operator.eq, "for good": operator.le}


class Trained(NamedTuple):
    """A run that has ended; it may have been stopped for lack of memory before."""

    run: RunDirectory
    stopped: str  # the error's words, or nothing
    steps: dict  # step: its checkpoint, as the first session left them
    asked: int  # how often that asked for memory


@pytest.fixture
def train(machine, tmp_path):
    """train(model, is_full): memory is full where is_full(how often it was asked for); it is then resumed with room."""
    folders = count()

    def session(run, sections, is_full):
        trainer = assemble(sections).trainer(run, Told())
        if list_checkpoints(run.checkpoints):
            trainer.restore(load_latest(run))
        machine.asked, machine.is_full = 0, is_full
        try:
            trainer.train()
        except DeviceMemoryError as error:
            return str(error)
        finally:
            machine.is_full = lambda asked: False
        return ""

    def train(model, is_full=lambda asked: False, **training):
        sections = small_sections(
            run={"task": "reverse", "device": "cupy"}, data=DATA, training=TRAINING | training,
            model=SMALL | {"dropout": 0.2} | MODELS[model],
        )  # fmt: skip
        folder = tmp_path / str(next(folders))
        folder.mkdir()
        run = RunDirectory(folder)
        stopped, asked = session(run, sections, is_full), machine.asked
        steps = {checkpoint.step: checkpoint for checkpoint in map(load_checkpoint, list_checkpoints(run.checkpoints))}
        assert not stopped or not session(run, sections, lambda asked: False)
        return Trained(run, stopped, steps, asked)

    return train


def logged(run):
    return [timeless(line) for line in metrics.read(run.metrics_path) if line["kind"] != "run"]


def pytest_generate_tests(metafunc):
    if "part" in metafunc.fixturenames:
        metafunc.parametrize("part", range(PARTS) if metafunc.config.getoption("full") else SOME)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("lasts", FULL)
def test_memory_that_is_full(part, lasts, model, train):
    """Whatever was going on, no checkpoint holds another step's numbers, and the run ends as if nothing had been."""
    alone = train(model, save_every=1)
    assert alone.asked > 3 * PARTS
    for place in range(part + 1, alone.asked + 1, PARTS):
        found = train(model, partial(FULL[lasts], place))
        assert found.stopped or lasts == "for a moment"
        for step, checkpoint in found.steps.items():
            for name, x in alone.steps[step].arrays.items():
                np.testing.assert_array_equal(checkpoint.arrays[name], x, err_msg=f"{name} of step {step}")
        lines, expected = logged(found.run), logged(alone.run)
        assert lines in (expected, expected[: -bool(found.stopped)])  # a run of all steps: the command evaluates it


def test_one_limit_holds_for_all_pools(machine, train, monkeypatch):
    """What a user asks of CuPy's pool, CUPY_GPU_MEMORY_LIMIT: graphs and other arrays share it."""
    unlimited = train("LayerNorm", eval_every=2)
    enough = machine.most_used - cupy_runtime.WORKSPACE  # which cuBLAS has
    other = emulated.installed(monkeypatch).machine
    other.limit = other.pools[0].limit = cupy_runtime.WORKSPACE + int(0.7 * enough)
    limited = train("LayerNorm", eval_every=2)
    assert other.most_used <= other.limit
    assert other.records
    assert logged(limited.run) == logged(unlimited.run)


def test_an_evaluation_takes_the_memory_that_graphs_do_not_use(machine, tmp_path):
    """And so do searches, and the next steps record anew."""
    sections = small_sections(run={"task": "reverse", "device": "cupy"}, data=DATA, training=TRAINING, model=SMALL)
    parts = assemble(sections)
    trainer = parts.trainer(RunDirectory(tmp_path), Told())
    trainer.train()
    expected, texts = trainer.evaluate(20), greedy(trainer.step.model, [[4, 5, 6]], 9)
    trainer.step(*parts.task.batch(9, 64))
    trainer.step(*parts.task.batch(9, 64))
    machine.pools[0].free_all_blocks()
    machine.room, launches = machine.used + 2_000, machine.launches
    assert trainer.evaluate(20) == expected
    machine.room = machine.used + 2_000
    np.testing.assert_array_equal(greedy(trainer.step.model, [[4, 5, 6]], 9), texts)
    machine.room = 1 << 40
    for _ in range(3):
        trainer.step(*parts.task.batch(9, 64))
    assert machine.launches > launches
    machine.pools[0].free_all_blocks()
    machine.room = 0
    with pytest.raises(DeviceMemoryError, match="expected room for what is computed, but its memory is full"):
        trainer.evaluate(20)
