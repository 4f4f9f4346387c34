"""The GPU command, without a GPU: parts within their time, saved results, targets, and what contenders are started."""

import inspect
import itertools
import json
import os
import re
import sys
import time
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

import npformer as npf
from benchmarks.gpu import __main__ as command
from benchmarks.gpu import parts as gpu_parts
from benchmarks.gpu.__main__ import LEAST, run
from benchmarks.gpu.parts import Part, Setting, entries, parts, pytest_command, summary
from benchmarks.gpu.targets import MILLISECONDS, RATIOS, SIZES, best, targets, times_as_fast
from benchmarks.harness import ROOT, ContenderError
from benchmarks.own import gpu as own
from benchmarks.own.gpu import (
    COMPILING,
    gradients,
    launched_kernels,
    memory_watched,
    reverse,
)
from benchmarks.page_tables import share_of_products
from benchmarks.products import step_flop
from npformer.backend import cupy_problem
from npformer.models.presets import PRESETS, Preset
from npformer.run.trainer import Trainer
from tests.benchmarks.rows import gradient, results, row, training

ABOUT = {"GPU": "NVIDIA H200", "precision": "float32, tf32"}


class Clock:
    """A clock that a part moves forward."""

    now = 0.0

    def __call__(self):
        return self.now

    def part(self, name, takes, most=100.0, error=None):
        """A part that takes this long; it returns its time limit and the earlier results that it received."""

        def do(setting):
            self.now += min(takes, setting.seconds)
            if error or takes > setting.seconds:
                raise error or ContenderError(f"{name} was stopped")
            return {"allowed": setting.seconds, "known": sorted(setting.results)}

        return Part(name, most, do)


def done(clock, folder, seconds, *chosen):
    """(the document, the state of each part)."""
    document = run(chosen, Setting(seconds, folder, {}), ABOUT, lambda text: None, clock)
    return document, {each["part"]: each["state"] for each in document["parts"]}


def test_parts_are_done_in_order_until_the_time_is_over(tmp_path):
    clock = Clock()
    order = [clock.part("a", 10), clock.part("b", 50, most=20), clock.part("c", 5), clock.part("d", 1)]
    document, states = done(clock, tmp_path, 35 + LEAST - 1, *order)
    assert states == {"a": "done", "b": "OUT OF TIME", "c": "done", "d": "NOT BEGUN"}
    assert document["results"] == {
        "a": {"allowed": 35 + LEAST - 1, "known": []},
        "c": {"allowed": 5 + LEAST - 1, "known": ["a"]},
    }
    assert json.loads((tmp_path / "results.json").read_text("utf-8")) == document, "the last part too"


def test_what_is_known_is_written_after_each_part_and_a_failure_stops_nothing(tmp_path):
    """Results survive a process that ends in the middle of the next part."""
    clock = Clock()

    def interrupted(setting):
        raise KeyboardInterrupt

    bad = clock.part("bad", 1, error=ValueError("no such thing"))
    with pytest.raises(KeyboardInterrupt):
        done(clock, tmp_path, 100, bad, clock.part("a", 1), Part("b", 9, interrupted), clock.part("c", 1))
    document = json.loads((tmp_path / "results.json").read_text("utf-8"))
    assert sorted(document["results"]) == ["a"]
    assert [each["state"] for each in document["parts"]] == ["FAILED", "done", "OUT OF TIME", "NOT BEGUN"]
    assert [each["said"] for each in document["parts"]][::2] == ["ValueError: no such thing", "interrupted"]


def test_npformers_own_rows_wait_for_no_peer(tmp_path, monkeypatch):
    """A peer that never gets ready ends its part, but npformer's row is saved already."""
    started = []

    @contextmanager
    def contenders(entries, environment, seconds=None):
        started.append([entry.name for entry in entries])
        if any(entry.name.startswith("torch") for entry in entries):
            raise ContenderError("torch-graph: it ended with code -9")
        yield [SimpleNamespace(name=name, facts={"ready_seconds": 1.5}) for name in started[-1]]

    made = training("tiny", "tf32", npformer_cuda=0.01)
    made["contenders"] = made["contenders"][:2]
    monkeypatch.setattr(gpu_parts, "contenders", contenders)
    monkeypatch.setattr(gpu_parts.train_step, "measured", lambda *args: made)
    monkeypatch.setattr(gpu_parts, "save_weights", lambda preset, folder: "weights")
    chosen = [part for part in parts() if part.name in ("train tf32 tiny", "against tf32 tiny")]
    document, states = done(Clock(), tmp_path, 300, *chosen)
    assert states == {"train tf32 tiny": "done", "against tf32 tiny": "FAILED"}
    assert started == [["npformer-cuda", "npformer-cuda-eager"], [*gpu_parts.OURS, *gpu_parts.PEERS]]
    (target,) = (each for each in document["targets"] if each["what"] == "tiny, tf32")
    assert target["holds"] is False
    assert document["results"]["train tf32 tiny"]["contenders"][0]["ready_seconds"] == 1.5


def test_each_named_factory_exists_and_accepts_its_options():
    pytest.importorskip("torch", reason="PyTorch is not installed")
    started = entries("tiny", "tf32", "weights")
    assert [entry.name for entry in started if entry.optional] == ["torch-graph", "torch-reduce-overhead"]
    for entry in started:
        assert {key: entry.options[key] for key in ("precision", "dropout", "device")} == {
            "precision": "tf32", "dropout": 0.1, "device": "cupy"
        }  # fmt: skip
        module, _, name = entry.factory.partition(":")
        assert set(entry.options) <= set(inspect.signature(getattr(import_module(module), name)).parameters)


def test_a_step_takes_no_less_than_its_products():
    row, result = {"median": 4 * step_flop(PRESETS["base"]) / 4e14}, {"size": "base", "precision": "tf32"}
    ceilings = {"ceilings": {"products": {"tf32": 4e14}}}
    assert share_of_products({"results": ceilings}, result, row) == "25 %"
    assert share_of_products({"results": {}}, result, row) == "–"


def test_the_tests_of_a_gpu_are_found_without_collecting_all():
    """The parts name the files with GPU tests, and no other file uses a GPU."""
    asking = re.compile(r"mark\.gpu|\bcupy64\b|\bcupy32\b|^def test_.*[( ]gpu[,)]", re.MULTILINE)
    files = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests").rglob("test_*.py")
        if path != Path(__file__) and asking.search(path.read_text(encoding="utf-8"))
    }
    assert files == set(gpu_parts.TESTS)
    assert pytest_command()[-len(files) :] == list(gpu_parts.TESTS)


@pytest.mark.parametrize(
    ("output", "code", "counts"),
    [
        ("....\n== 12 passed, 3 skipped in 4.5s ==\n", 0, (12, "12 passed, 3 skipped in 4.5s")),
        ("F\n1 failed, 2 passed in 1s\n", 1, (2, "1 failed, 2 passed in 1s")),
        ("..........\n", None, (0, "stopped in the middle of: ..........")),
        ("", 4, (0, "no output")),
    ],
)
def test_what_pytest_said(output, code, counts):
    known = summary(output, code)
    assert (known["passed"], known["summary"], known["code"]) == (*counts, code)


def test_tests_that_take_too_long_are_stopped(tmp_path, monkeypatch):
    script, log, looks = tmp_path / "slow", tmp_path / "tests.txt", []
    script.write_text('#!/bin/sh\necho "accelerators: <${CUPY_ACCELERATORS-cub}>"\nexec sleep 3600\n')
    script.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(script))

    def monotonic():
        """The time is over as soon as the tests have begun."""
        while looks and not log.read_text(encoding="utf-8").endswith("\n"):
            time.sleep(0.01)
        looks.append(1e6 * len(looks))
        return looks[-1]

    monkeypatch.setattr(gpu_parts, "time", SimpleNamespace(monotonic=monotonic))
    outcome = gpu_parts.tests(Setting(600.0, tmp_path, dict(os.environ), torch=False))
    said = "stopped in the middle of: accelerators: <>"  # CuPy's reductions are not compiled with CUB
    assert (outcome["code"], outcome["summary"]) == (None, said)


def test_what_cannot_run_is_refused_before_anything_starts(refused, tmp_path, monkeypatch):
    assert "--only: expected beginnings of tests, ceilings, train tf32 tiny" in refused(command.main, "--only trian")
    if problem := cupy_problem():
        assert problem in refused(command.main, "--against none")
    monkeypatch.setattr(command, "cupy_problem", lambda: None)
    monkeypatch.setattr(command.importlib.metadata, "version", lambda name: "2.13.0+cpu")
    assert "expected a build of PyTorch for CUDA" in refused(command.main)
    (tmp_path / "results.json").write_text("{}")
    assert "nothing is overwritten" in refused(command.main, "--against none --out", tmp_path)


def test_without_a_graph_there_is_no_count_of_kernels(numpy32):
    model = npf.Transformer(PRESETS["tiny"].config(), backend=numpy32)
    assert launched_kernels(npf.TrainStep(model, npf.Adam(model.arena))) == {}
    assert memory_watched(numpy32)() == {}


def test_gradients_are_held_against_float64(monkeypatch):
    monkeypatch.setattr(own, "CHECKED", Preset(40, 8, 2, 2, 12, 5, 3))
    errors = gradients("numpy", "numpy").tasks["gradients"]()()
    assert errors["wrong"] == 0
    names = {error["tensor"] for error in errors["rows"]}
    assert {"generator.weight", "encoder.layers.1.self_attention.query.weight"} <= names
    assert all("% of the budget" in error["note"] and error["error"] > 0 for error in errors["rows"])


def test_reverse_is_trained_as_the_command_does_it_after_what_compiles(monkeypatch):
    """Functions are compiled at their first call: an evaluation, with its argmax, comes before the timed training."""
    evaluated = []
    real = Trainer.train

    def train(self):
        real(self)
        assert self.last_evaluation is not None
        evaluated.append(self.step.step_number)

    monkeypatch.setattr(Trainer, "train", train)
    task = reverse("numpy", "float32", "numpy", steps=2).tasks["reverse"]()
    assert evaluated == [COMPILING]
    result = task()
    assert evaluated == [COMPILING, 2]
    assert result["sequences"] == 1000
    assert 0 <= result["exact_match"] < 0.5
    assert result["seconds"] > 0


def test_where_everything_is_reached_all_hold_and_nothing_does_where_nothing_was_measured():
    for measured, holds, verdict in ((results(), True, "holds"), ({}, None, "not measured")):
        every = targets(measured)
        assert len(every) == 1 + 4 + 12 + 1 + 8 + 1 + 2
        assert {target.holds for target in every} == {holds}
        text = command.targets_table([target._asdict() for target in every])
        assert text.count(verdict) == len(every)
        assert text.endswith(f"{len(every) if holds else 0} of {len(every)} targets hold")


def test_the_fastest_captured_row_counts_round_by_round():
    assert best(training("tiny", "tf32")["contenders"])["name"] == "npformer-cuda", "eager ones are no candidates"
    ours, theirs = row("npformer-cuda", 1.0), row("torch-fast", 1.0)
    ours["round_medians"], theirs["round_medians"] = [1.0, 10.0, 1.0], [2.0, 20.0, 3.0]
    assert times_as_fast(ours, theirs) == 2.0


def measured_as(part, size, name, least, what):
    """Two rows of the table below: a time a little on the right side of a target, and a little on the wrong one."""
    for factor in (0.999, 1.001):
        seconds = {"npformer_cuda": 0.001, name: least * factor}
        is_missed = (factor > 1) == (name == "npformer_cuda")
        yield part, training(size, "tf32", **seconds), [what] if is_missed else []


NEAR = [
    *(measured_as(f"train tf32 {size}", size, "npformer_cuda", most * 1e-3, f"{size}, tf32")
      for size, most in zip(SIZES, MILLISECONDS, strict=True)),
    *(measured_as(f"against {precision} {size}", size, peer.replace("-", "_"), 0.001 * least,
                  f"{size}, {precision}: times as fast as {peer}")
      for precision, peer, wanted in RATIOS for size, least in zip(SIZES, wanted, strict=True)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("part", "change", "failed"),
    [
        *itertools.chain(*NEAR),
        ("tests", {"code": None}, ["tests marked gpu"]),
        ("tests", {"passed": 0}, ["tests marked gpu"]),
        ("reverse", {"exact_match": 0.994}, ["train reverse"]),
        ("reverse", {"seconds": 3.01}, ["train reverse"]),
        ("gradients", {"rows": [gradient("x", False)], "wrong": 1}, ["gradients in float32"]),
        ("gradients", {"rows": []}, ["gradients in float32"]),
        ("against tf32 mid", {"same": {"holds": False, "difference": 1.0}}, ["tf32: losses of all contenders"]),
        ("batches", {"numbers": {"replayed": 439, "steps": 500, "seconds": 0.0015, "one_shape": 0.001}},
         ["numbers: steps that are replays"]),
        ("batches", {"numbers": {"replayed": 440, "steps": 500, "seconds": 0.00151, "one_shape": 0.001}},
         ["numbers: a step of all shapes"]),
    ],
)  # fmt: skip
def test_each_target_can_fail(part, change, failed):
    measured = results()
    every = targets(measured | {part: measured[part] | change})
    assert [target.what for target in every if not target.holds] == failed
