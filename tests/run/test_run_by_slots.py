"""Whole runs by slots: any number of ranks gives the bits of one process, and goes on with a run of any other."""

import json
import threading

import pytest

from npformer.backend.numpy import NumpyDevice
from npformer.errors import ConfigError
from npformer.models import build_model
from npformer.run import assemble, begin
from npformer.run.begin import begun, continued
from npformer.run.checkpoint import latest_checkpoint, load_checkpoint
from npformer.run.journal import Listeners
from npformer.run.trainer import Trainer
from npformer.run.world import World
from tests.engine.thread_ranks import in_threads
from tests.run.runs import SMALL, timeless

STEPS = 40  # of 200, in processes: python -m benchmarks.same_bits
#: Words are of 1 to 12 letters; micro-batches of 5 and of 4 rows leave slots without any.
TRAINING = {
    "steps": STEPS, "batch_size": 9, "accumulate": 2, "clip_norm": 0.5, "slots": 8, "eval_every": 20,
    "eval_examples": 60, "final_examples": 60, "save_every": 20, "log_every": 5, "keep_last": 9,
}  # fmt: skip


def sections(task="reverse", kernels="numba", **training):
    run = {"task": task, "device": "numpy", "kernels": kernels}
    data = {"count": 1_000} if task == "dates" else {}
    return {"run": run, "data": data, "model": SMALL | {"dropout": 0.1}, "training": TRAINING | training}


def run(path, ranks, options, shard=False, train=Trainer.train):
    """Train in the folder path, on one process (None) or on so many ranks: anew, or on if options is None.

    Returns each one's weights and last evaluation.
    """
    nothing = {"run": {}, "data": {}, "model": {}, "training": {}}

    def work(ranks):
        world = World(ranks, shard)
        opened = continued(path, nothing, Listeners(), world)
        with opened if options is None else begun(options, path, Listeners(), world) as (trainer, _):
            train(trainer)
            return trainer.step.model.arena.values.tobytes(), trainer.last_evaluation

    return [work(None)] if ranks is None else in_threads(ranks, work)


def content(path):
    """The metrics of a run without what clocks say, and its last checkpoint: arrays to the bit, and the state."""
    lines = [timeless(json.loads(line)) for line in (path / "metrics.jsonl").read_text().splitlines()]
    saved = load_checkpoint(latest_checkpoint(path / "checkpoints"))
    arrays = {name: (x.dtype, x.shape, x.tobytes()) for name, x in saved.arrays.items()}
    return lines, arrays, saved.state, saved.step


@pytest.mark.parametrize("sharded", [False, True], ids=["", "sharded"])
@pytest.mark.parametrize(("task", "kernels"), [("reverse", "numba"), ("dates", "numpy")])
def test_a_run_on_several_ranks_is_that_of_one(task, kernels, sharded, tmp_path):
    """Losses, norms, evaluations, moments and weights; and ranks but the first write nothing."""
    options = sections(task, kernels)
    ((weights, evaluation),) = run(tmp_path / "alone", None, options)
    expected = content(tmp_path / "alone")
    assert {line["kind"] for line in expected[0]} == {"run", "train", "gradient", "eval"}
    for ranks in (2, 8):
        place = tmp_path / str(ranks)
        assert run(place, ranks, options, sharded) == [(weights, evaluation)] * ranks
        assert content(place) == expected
        assert sorted(file.name for file in place.iterdir()) == sorted(x.name for x in (tmp_path / "alone").iterdir())


@pytest.mark.parametrize("sharded", [False, True], ids=["", "sharded"])
def test_any_number_of_ranks_goes_on_with_a_run_of_any_other(sharded, tmp_path):
    options = sections(steps=40, eval_every=10, save_every=10, warmup_steps=4)
    ends = run(tmp_path / "alone", None, options)
    place = tmp_path / "changed"
    for stop, ranks in ((10, 4), (20, None), (30, 2), (40, 8)):
        last = run(place, ranks, options if stop == 10 else None, sharded, killed_after(stop))
    assert last == ends * 8
    assert content(place) == content(tmp_path / "alone")


def killed_after(step):
    """Let a trainer make this many steps in all, and leave it as a killed process would."""

    def train(trainer):
        trainer._journal.begin(trainer.step.step_number)
        while trainer.step.step_number < step:
            trainer._one_step()
        trainer._journal.close()

    return train


def test_all_ranks_stop_after_the_same_step(tmp_path):
    """The signal of one rank travels with its next step."""

    def work(ranks):
        with begun(sections(steps=50), tmp_path / "run", Listeners(), World(ranks)) as (trainer, _):
            asked = type("Asked", (), {"number": 15 if ranks.rank == 3 else None})()
            trainer._journal.begin(0)
            for number in range(50):
                trainer.step.stop_signal = trainer._wants_to_stop(asked) if number >= 5 else 0
                trainer._one_step()
                try:
                    trainer._stop_if_asked(type("Unasked", (), {"number": None})())
                except Exception as stopped:
                    return trainer.step.step_number, stopped.exit_code

    assert in_threads(4, work) == [(6, 128 + 15)] * 4
    assert latest_checkpoint(tmp_path / "run" / "checkpoints").name == "step-00000006"


def test_more_ranks_than_slots_are_refused_by_all_before_anything_is_written(tmp_path):
    with pytest.raises(ConfigError, match="processes: expected a power of two that is at most the number of slots, 2"):
        run(tmp_path / "run", 4, sections(slots=2))
    assert not (tmp_path / "run").exists()


def test_other_weights_in_one_rank_are_refused_before_anything_is_written(tmp_path, monkeypatch):
    def other(*arguments, **options):
        model = build_model(*arguments, **options)
        if threading.current_thread().name == "rank 1":
            model.arena.values[-1] += 1
        return model

    monkeypatch.setattr(assemble, "build_model", other)
    with pytest.raises(ConfigError, match=r"expected the same weights in all of them, got 'SHA-256 .* rank 1"):
        run(tmp_path / "run", 2, sections())
    assert not (tmp_path / "run").exists()


def test_two_ranks_on_one_gpu_are_refused_before_anything_is_written(tmp_path, monkeypatch):
    """One at most can be in CUDA_VISIBLE_DEVICES; the stand-in is NumPy's device."""
    options = sections(steps=2, warmup_steps=0)
    monkeypatch.setattr(NumpyDevice, "card", property(lambda _: threading.current_thread().name), raising=False)
    run(tmp_path / "each its own", 2, options)
    monkeypatch.setattr(NumpyDevice, "card", "0000:3B:00.0 of here")
    with pytest.raises(ConfigError, match=r"expected a GPU of its own for each, got 0000:3B:00\.0 of here for several"):
        run(tmp_path / "run", 2, options)
    assert not (tmp_path / "run").exists()


def test_other_checkpoints_are_refused(tmp_path, monkeypatch):
    def other(folder):
        saved = load_checkpoint(latest_checkpoint(folder.checkpoints))
        if threading.current_thread().name != "rank 0":
            next(x for name, x in saved.arrays.items() if "second." in name)[0] += 1
        return saved

    run(tmp_path / "run", None, sections(), train=killed_after(20))
    before = content(tmp_path / "run")
    monkeypatch.setattr(begin, "load_latest", other)
    with pytest.raises(ConfigError, match="expected the same checkpoint in all of them, got 'step 20, SHA-256"):
        run(tmp_path / "run", 2, None)
    assert content(tmp_path / "run") == before
