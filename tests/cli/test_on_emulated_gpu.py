"""The whole program on an emulated GPU: it trains by replays, evaluates, saves, resumes and decodes."""

import shutil
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from npformer.cli.main import main
from npformer.run import metrics
from npformer.run.checkpoint import list_checkpoints
from npformer.training import TrainStep
from tests.cli.conftest import assignments
from tests.engine.cuda.host_runtime import compiler_problem
from tests.engine.cupy import emulated
from tests.run.runs import timeless

pytestmark = pytest.mark.skipif(compiler_problem() is not None, reason=str(compiler_problem()))

COMMON = {
    "d_model": 16, "d_ff": 32, "num_heads": 2, "batch_size": 16, "learning_rate": 0.01,
    "log_every": 1, "eval_every": 20, "save_every": 8, "keep_last": 3, "eval_examples": 12, "final_examples": 12,
}  # fmt: skip
LAYERS = {"num_encoder_layers": 1, "num_decoder_layers": 1}
LETTERS = str.maketrans("123", "abc")


class Asked(NamedTuple):
    """What is asked of a task: its options, how many steps are replays at least, and texts to decode."""

    options: dict
    replays: int
    texts: dict  # text: the trained model's answer to it, or None
    device: str = "cupy"


TASKS = {
    "pairs": Asked({"steps": 200, "dropout": 0.02, **LAYERS}, 190, {"1321": "acba", "22": "bb"}),
    "language": Asked({"count": 30, "steps": 60, "dropout": 0.1, "num_layers": 1}, 20, {"5. maj 1987": None}, "auto"),
    "lm": Asked({"max_length": 16, "steps": 60, "dropout": 0.1, "num_layers": 1}, 58, {"1 plus": None}),
}
EVERY_TASK = pytest.mark.parametrize("task", TASKS)


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    """words(task, device, **options): those of the command that trains it."""
    folder = tmp_path_factory.mktemp("data")
    numbers = ["".join(digits) for length in (2, 3, 4) for digits in product("123", repeat=length)]
    files = {
        "pairs": "".join(f"{number}\t{number.translate(LETTERS)}\n" for number in numbers),
        "lm": " ".join(f"{n} plus {n % 7} is {n + n % 7}." for n in range(300)),
    }
    for task, text in files.items():
        (folder / task).write_text(text)

    def found(task, device, **options):
        data = ["--data", str(folder / task)] if task in files else []
        return ["train", task, *data, "--device", device, *assignments(COMMON | TASKS[task].options | options)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NPFORMER_CACHE", str(folder / "cache"))
        yield found


class Run(NamedTuple):
    """A run that nothing disturbed: its folder, and what the device was asked for in each step."""

    path: Path
    steps: list  # (launches, records)


@pytest.fixture(scope="module")
def runs(words, tmp_path_factory):
    """runs(task): its run, trained on first use; not to be changed."""
    folder, made = tmp_path_factory.mktemp("runs"), {}

    def run_of(task):
        if task not in made:
            with pytest.MonkeyPatch.context() as patch:
                steps = watched(patch, emulated.installed(patch).machine)
                assert main([*words(task, TASKS[task].device), "--out", str(folder / task)]) == 0
            made[task] = Run(folder / task, steps)
        return made[task]

    return run_of


def watched(patch, machine):
    """A list that grows with each training step."""
    real, steps = TrainStep.__call__, []

    def call(self, *batch):
        before = machine.launches, machine.records
        loss = real(self, *batch)
        steps.append((machine.launches - before[0], machine.records - before[1]))
        return loss

    patch.setattr(TrainStep, "__call__", call)
    return steps


@pytest.fixture
def a_gpu(monkeypatch):
    """The emulated device."""
    return emulated.installed(monkeypatch)


@EVERY_TASK
def test_all_steps_but_the_first_are_launches_and_most_of_them_replays(task, runs):
    first, *others = runs(task).steps
    assert first == (0, 0)
    assert {launches for launches, _ in others} == {1}
    assert [records for _, records in others].count(0) >= TASKS[task].replays


def numbers_of(run, kind):
    """The numbers of a run's lines of a kind, to step 20."""
    lines = [line for line in metrics.read(run / "metrics.jsonl") if line["kind"] == kind and line["step"] <= 20]
    return [[number for name, number in timeless(line).items() if name != "kind"] for line in lines]


@EVERY_TASK
def test_losses_and_evaluations_are_those_on_the_cpu(task, runs, words, cli, tmp_path):
    cli("", *words(task, "numpy", kernels="plain"), "--out", "run").fine()
    for kind, count in {"train": 20, "eval": 1}.items():
        there, here = (numbers_of(run, kind) for run in (runs(task).path, tmp_path / "run"))
        assert len(there) == count
        np.testing.assert_allclose(there, here, rtol=1e-5, atol=0)


@EVERY_TASK
def test_a_trained_model_decodes_as_on_the_cpu(task, runs, a_gpu, cli):
    """Greedily, or sampled with one seed, and by beams."""
    texts = TASKS[task].texts
    for way in ("", "--beam 3") if task != "language" else ("",):
        there, here = (
            cli(f"decode --json --device {device} {way}", runs(task).path, *texts).quiet().document
            for device in ("cupy", "numpy")
        )
        for found, expected, (text, right) in zip(there, here, texts.items(), strict=True):
            assert (found["input"], found["output"]) == (text, expected["output"] if right is None else right)
            assert found.keys() == expected.keys()
            for name in found.keys() & {"score", "probability"}:
                assert found[name] == pytest.approx(expected[name], rel=1e-5)


#: Options of the gradient check, and a kernel that it runs.
CHECKS = {
    "--only softmax": None,  # the plain pairs, on the device
    "--kernels auto --only feed_forward": "feed_forward.relu_rows_backward",
    "--kernels auto --dtype float32 --only LayerNorm": "layer_norm.norm_rows_backward",
}


@pytest.mark.parametrize("options", CHECKS)
def test_the_gradient_check_computes_there(options, a_gpu, cli):
    kernel, launched = CHECKS[options], a_gpu.machine.kernels.launched
    where = "plain" if kernel is None else "cuda"
    done = cli(f"gradcheck --device cupy {options}").fine()
    done.says("are right; largest error", f"with cupy ({where}) on a machine without a GPU")
    assert kernel in launched if kernel else launched == []


@EVERY_TASK
def test_a_run_that_is_resumed_is_one_that_was_not_stopped(task, runs, a_gpu, cli, same_run, tmp_path):
    run = shutil.copytree(runs(task).path, tmp_path / "run")
    for path in list_checkpoints(run / "checkpoints")[-2:]:
        shutil.rmtree(path)
    cli("train --resume", run).fine().warns("with cupy (cuda) on a machine without a GPU")
    assert a_gpu.machine.launches > a_gpu.machine.records > 0
    same_run(run, runs(task).path)
