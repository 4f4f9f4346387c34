"""What a report tells of a run: read from its folder alone, the same as its own training said."""

import dataclasses
import shlex
from unittest.mock import Mock

import pytest

from npformer.cli.main import build_parser
from npformer.cli.train import options_from_args
from npformer.errors import DataError
from npformer.run import RunDirectory
from npformer.run.assemble import assemble, write_run
from npformer.run.summary import read_run, summary_of
from tests.run.runs import SMALL, Told

OPTIONS = {
    "run": {"task": "reverse", "device": "numpy", "kernels": "numpy", "seed": 3},
    "data": {"max_length": 4},
    "model": SMALL,
    "training": {"steps": 6, "batch_size": 4, "eval_every": 3, "log_every": 2, "final_examples": 9, "eval_examples": 5},
}


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """A finished run: its trainer, and its options."""
    run = RunDirectory.create(tmp_path_factory.mktemp("runs") / "a run", None, "reverse")
    parts = assemble(OPTIONS)
    write_run(run, parts)
    trainer = parts.trainer(run, Told())
    trainer.train()
    return trainer, parts.options


def test_the_folder_alone_gives_what_the_training_found(ended):
    trainer, options = ended
    summary = summary_of(trainer.run)
    assert summary.options == options
    assert (summary.name, summary.step, summary.note) == ("a run", 6, "")
    assert summary.parameters == trainer.step.model.num_parameters()
    assert summary.evaluation.outputs == trainer.last_evaluation.outputs
    assert summary.evaluation.loss == pytest.approx(trainer.last_evaluation.loss, rel=1e-6)
    assert [one.source for one in summary.predictions] == [example.source for example in trainer.task.held_out(9)]
    for one, output in zip(summary.predictions, summary.evaluation.outputs, strict=True):
        assert "".join(piece.got or "" for piece in one.pieces) == output
    assert {line["kind"] for line in summary.records} == {"run", "train", "eval", "gradient"}
    assert summary.environment["kernels"] == "numpy"
    assert set(summary.attention.weights) == {
        "encoder.layers.0.self_attention",
        "decoder.layers.0.self_attention",
        "decoder.layers.0.cross_attention",
    }


def test_the_command_trains_with_the_same_options(ended):
    trainer, options = ended
    _, *words = shlex.split(summary_of(trainer.run, 1).repeat)
    assert assemble(options_from_args(build_parser().parse_args(words))).options == options


@pytest.mark.parametrize(("warmup", "step"), [(0, 6), (0, 0), (3, 2), (1, 6)])
def test_the_planned_rate_begins_at_step_1(ended, warmup, step):
    trainer, options = ended
    training = dataclasses.replace(options.training, warmup_steps=warmup)
    summary = dataclasses.replace(
        summary_of(trainer.run, 1), options=dataclasses.replace(options, training=training), step=step
    )
    steps, rates = summary.rates()
    assert (steps[0], steps[-1]) == (1.0, max(step, 1))
    assert rates[0] == training.make_schedule(8)(1)


def test_without_the_data_it_says_why(ended, tmp_path, monkeypatch):
    trainer, _ = ended

    gone = Mock(side_effect=DataError("words.tsv: nothing there"))
    monkeypatch.setattr("npformer.run.assemble.make_task", gone)
    summary = summary_of(trainer.run)
    assert (summary.predictions, summary.evaluation, summary.attention) == ([], None, None)
    assert summary.note.endswith("words.tsv: nothing there")


def test_other_data_than_trained_on_are_not_used(ended, monkeypatch):
    trainer, _ = ended
    other = dataclasses.make_dataclass("Other", [("digest", str)])("another")
    monkeypatch.setattr("npformer.run.assemble.make_task", lambda *_: other)
    assert "expected the data that the run was trained on, " in summary_of(trainer.run).note


def test_a_run_is_read_by_its_path_and_a_prompt_shows_it_in_a_line(ended):
    trainer, _ = ended
    found = read_run(str(trainer.run.path), examples=5)
    assert found.evaluation.count == 5
    assert repr(found) == (
        f"<run a run: reverse, {trainer.step.model.num_parameters():,} parameters, step 6 of 6, "
        f"held-out loss {found.evaluation.loss:.4f}>"
    )
