"""A resumed run repeats the uninterrupted one bit for bit, wherever it was stopped and whatever is switched on."""

from pathlib import Path

import pytest

from npformer.errors import Interrupted
from npformer.run import RunDirectory, metrics
from npformer.run.assemble import assemble
from npformer.run.checkpoint import list_checkpoints, load_checkpoint
from npformer.run.trained import load_latest
from tests.run.runs import SMALL, stop_at, timeless

pytestmark = pytest.mark.usefixtures("usual_signals")

STEPS = 13
BASE = {
    "run": {"device": "numpy", "seed": 3},
    "data": {"symbols": 6, "max_length": 5},
    "model": SMALL,
    "training": {
        "steps": STEPS, "batch_size": 6, "log_every": 5, "eval_every": 6, "save_every": 4, "eval_examples": 4,
        "final_examples": 6, "keep_last": 2,
    },
}  # fmt: skip

VARIANTS = {
    "plain": {},
    "micro-batches": {"model": {"dropout": 0.3}, "training": {"accumulate": 4}},
    "adamw and noam": {"training": {"optimizer": "adamw", "schedule": "noam", "weight_decay": 0.3, "warmup_steps": 5}},
    "float64, pre-LN, tied, smoothing": {
        "run": {"dtype": "float64"},
        "model": {"norm_order": "pre", "tie_embeddings": True, "activation": "gelu", "positions": "learned"},
        "training": {"label_smoothing": 0.1},
    },
    "BatchNorm": {"model": {"norm": "batch"}},
    "pairs": {"run": {"task": "pairs"}, "data": {"file": "own.tsv"}, "model": {"dropout": 0.1}},
}


def merged(changes):
    return {name: section | changes.get(name, {}) for name, section in BASE.items()}


def train(folder, options, stop_after=None):
    """Begin or resume the run in folder, with everything made anew. Returns whether it came to its end."""
    folder.mkdir(exist_ok=True)
    parts, run = assemble(options), RunDirectory(folder)
    trainer = parts.trainer(run, stop_at(stop_after))
    if list_checkpoints(run.checkpoints):
        trainer.restore(load_latest(run))
    try:
        trainer.train()
    except Interrupted:
        return False
    return True


def end(folder):
    """The bits of the last checkpoint, its state and score, and the metrics but for what clocks say."""
    last = load_latest(RunDirectory(folder))
    lines = metrics.read(folder / "metrics.jsonl")
    arrays = {name: (array.dtype, array.shape, array.tobytes()) for name, array in last.arrays.items()}
    return last.step, last.score, last.state, [timeless(line) for line in lines], arrays


@pytest.fixture(params=VARIANTS.values(), ids=list(VARIANTS))
def options(request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("own.tsv").write_text("".join(f"{n}\t{n * n}\n" for n in range(40)))
    return merged(request.param)


STOPS = {"after every step": [1] * STEPS, "here and there": [3, 2, 5]}


@pytest.mark.parametrize("stops", STOPS.values(), ids=STOPS)
def test_stops_leave_no_trace(options, tmp_path, stops):
    assert train(tmp_path / "straight", options)
    ended = [train(tmp_path / "stopped", options, after) for after in stops]
    if not any(ended):
        assert train(tmp_path / "stopped", options)
    assert not ended[0]
    assert end(tmp_path / "stopped") == end(tmp_path / "straight")


def test_what_was_done_after_the_last_checkpoint_is_done_again(options, tmp_path):
    """A kill leaves lines in the log that are later than the checkpoint, and perhaps half a line."""
    assert train(tmp_path / "straight", options)
    assert not train(tmp_path / "killed", options, 8)
    log = tmp_path / "killed" / "metrics.jsonl"
    assert not train(tmp_path / "killed", options, 3)
    for path in list_checkpoints(tmp_path / "killed" / "checkpoints")[1:]:
        path.rename(tmp_path / path.name)
    assert [load_checkpoint(path).step for path in list_checkpoints(log.parent / "checkpoints")] == [8]
    assert metrics.read(log)[-1]["step"] > 8
    with log.open("ab") as file:
        file.write(b'{"step": 12, "kind": "tr')
    assert train(tmp_path / "killed", options)
    assert end(tmp_path / "killed") == end(tmp_path / "straight")
