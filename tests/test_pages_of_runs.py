"""The blocks of docs/runs.md and docs/pytorch-weights.md run one after the other, and do what the pages say."""

import sys
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from npformer.cli.main import main
from npformer.run import sinks
from tests.markdown import blocks, names_after, text_of

RUNS, PYTORCH = "docs/runs.md", "docs/pytorch-weights.md"


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """The names after all blocks about runs, with packages in the place of wandb and mlflow that note their calls."""
    folder, calls = tmp_path_factory.mktemp("runs"), []

    def noting(name):
        return lambda *given, **options: calls.append((name, *given, options))

    wandb = SimpleNamespace(init=noting("init"), log=noting("log"))
    mlflow = SimpleNamespace(start_run=nullcontext, log_metric=noting("log_metric"), log_params=noting("log_params"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "wandb", wandb)
        patch.setitem(sys.modules, "mlflow", mlflow)
        patch.setattr(sinks, "SINKS", dict(sinks.SINKS))
        return names_after(RUNS, folder) | {"folder": folder, "calls": calls}


def test_the_model_of_a_run(names):
    assert names["model"].tokenizer.decode(names["ids"]) == "hello"
    assert names["again"].tokenizer.vocabulary == names["model"].tokenizer.vocabulary
    assert np.array_equal(names["again"].arena.values, names["model"].arena.values)
    assert not np.array_equal(names["early"].arena.values, names["model"].arena.values)


def test_its_commands_run(names, monkeypatch, capsys):
    """As on the page, the trainings with fewer steps; the first block before that is a training's own."""
    monkeypatch.chdir(names["folder"])
    (names["folder"] / "mine.tsv").write_text("".join(f"{n}\t{n}{n}\n" for n in range(50)))
    words = " --set steps=2 --set final_examples=3 --set d_model=8 --set d_ff=8"
    assert main(f"train pairs --data mine.tsv{words}".split()) == 0
    commands = [line for block in blocks("sh", text_of(RUNS)) for line in block.splitlines()]
    assert len(commands) == 3
    for command in commands:
        if "tensorboard" in command and sinks.find_spec("tensorboardX") is None:
            continue
        short = words if "reverse --log" in command else words.partition(" --set d_model")[0]
        line = command.removeprefix("npformer ") + (short if "train" in command else "")
        assert main(line.split()) == 0, capsys.readouterr().err


def test_a_sink_of_ones_own(names):
    (file,) = names["folder"].glob("runs/reverse-*/losses.txt")
    assert [int(line.split()[0]) for line in file.read_text().splitlines()] == list(range(1, 21))


def test_wandb_and_mlflow_are_told(names):
    calls = names["calls"]
    logged = [(call[-1]["step"], *call[1]) for call in calls if call[0] == "log"]
    assert [call for call in logged if "loss" in call] == [(10, "loss", "rate"), (20, "loss", "rate")]
    steps = [step for step, *fields in logged if "held-out" in fields]
    assert steps == [call[3] for call in calls if call[0] == "log_metric"] == [2, 4, 6, 8, 10, 12, 14, 16, 18, 20]
    assert {call[0] for call in calls} == {"init", "log", "log_metric", "log_params"}


def test_the_first_block_of_weights_needs_no_pytorch(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "torch", None)
    exec(blocks("python", text_of(PYTORCH))[0], {})
    assert (tmp_path / "weights.safetensors").is_file()


def test_weights_to_pytorch_and_back(tmp_path):
    pytest.importorskip("torch")
    found = names_after(PYTORCH, tmp_path)
    np.testing.assert_allclose(found["ours"], found["theirs"], rtol=0, atol=1e-5)
    np.testing.assert_allclose(found["again"], found["ours"] + 1, rtol=0, atol=1e-5)
