"""The GPU command: order and time limits of parts, saved results, and the error without a GPU."""

import json
import os
import re
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import train_step, turns
from benchmarks.gpu import __main__ as command
from benchmarks.gpu import parts as gpu_parts
from benchmarks.gpu.__main__ import LEAST, run
from benchmarks.gpu.parts import Part, Setting, parts, pytest_command, summary
from benchmarks.gpu.targets import targets
from benchmarks.turns import ROOT, ContenderError, Entry
from npformer.backend import cupy_problem
from npformer.check import catalogue
from tests import test_gpu as on_gpu
from tests.benchmarks.rows import results, training
from tests.conftest import needs_numba

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
    setting = Setting(seconds, folder, {})
    document = run(chosen, setting, ABOUT, lambda text: None, clock)
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
    assert [each["seconds"] for each in document["parts"]] == [10, 20, 5, 0]
    assert json.loads((tmp_path / "results.json").read_text("utf-8")) == document, "the last part too"


def test_a_part_that_fails_does_not_stop_the_next(tmp_path):
    clock = Clock()
    order = [clock.part("a", 1, error=ValueError("no such thing")), clock.part("b", 1)]
    document, states = done(clock, tmp_path, 100, *order)
    assert states == {"a": "FAILED", "b": "done"}
    assert document["parts"][0]["said"] == "ValueError: no such thing"


def test_what_is_known_is_written_after_each_part(tmp_path):
    """Results survive a process that ends in the middle of the next part."""
    clock = Clock()

    def interrupted(setting):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        done(clock, tmp_path, 100, clock.part("a", 1), Part("b", 9, interrupted), clock.part("c", 1))
    document = json.loads((tmp_path / "results.json").read_text("utf-8"))
    assert sorted(document["results"]) == ["a"]
    assert [each["state"] for each in document["parts"]] == ["done", "OUT OF TIME", "NOT BEGUN"]
    assert document["parts"][1]["said"] == "interrupted"


def test_the_most_important_part_comes_first_and_all_parts_fit():
    names = [part.name for part in parts()]
    sizes = ("tiny", "small", "mid", "base")
    assert names == [
        "tests", "ceilings", *(f"train tf32 {size}" for size in sizes),
        "reverse", "gradients", "batches",
        *(f"against tf32 {size}" for size in sizes),
        *(f"train float32 {size}" for size in sizes), *(f"against float32 {size}" for size in sizes), "decode", "ops",
    ]  # fmt: skip
    before_peers = parts()[: names.index("against tf32 tiny")]
    assert sum(part.seconds for part in before_peers) < 540


def test_npformers_own_rows_wait_for_no_peer(tmp_path, monkeypatch):
    """A peer that never gets ready ends its part, but npformer's row is saved already."""
    started = []

    @contextmanager
    def contenders(entries, environment, seconds=None):
        started.append([entry.name for entry in entries])
        if any(entry.name.startswith("torch") for entry in entries):
            raise ContenderError("torch-compile: it ended with code -9")
        yield []

    monkeypatch.setattr(train_step, "contenders", contenders)
    monkeypatch.setattr(train_step, "measure", lambda *args: training("tiny", "tf32"))
    monkeypatch.setattr(train_step, "save_weights", lambda preset, folder: "")
    chosen = [part for part in parts() if part.name in ("train tf32 tiny", "against tf32 tiny")]
    document, states = done(Clock(), tmp_path, 300, *chosen)
    assert states == {"train tf32 tiny": "done", "against tf32 tiny": "FAILED"}
    assert not any(name.startswith("torch") for name in started[0])
    (target,) = (each for each in document["targets"] if each["what"] == "tiny, tf32")
    assert target["holds"] is not None


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


def test_every_test_that_uses_a_gpu_is_marked():
    """Without the mark, -m gpu leaves the test out."""
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:xdist", *gpu_parts.TESTS, "-m"]
    marked, all_others = (
        subprocess.run([*command, which], cwd=ROOT, capture_output=True, text=True, check=False).stdout
        for which in ("gpu", "not gpu")
    )
    for name in ("-cupy64]", "test_cupy_decodes_the_same", "[cupy64", "test_cupy_equals_the_plain"):
        assert name in marked
        assert name not in all_others


def test_gradients_are_sampled_on_a_gpu(numpy64):
    """Checking each element would run the forward hundreds of times, with hundreds of kernels each."""
    (case,) = (case for case in catalogue() if case.name == "DecoderLayer: post, relu")
    asked = 0

    def build(backend):
        layer = case.build(backend)
        forward = layer.forward

        def counted(*inputs, **options):
            nonlocal asked
            asked += 1
            return forward(*inputs, **options)

        layer.__dict__["forward"] = counted
        return layer

    on_gpu.test_every_gradient_is_right_on_the_gpu(replace(case, build=build), numpy64)
    assert 0 < asked < 620  # of 26 tensors


def test_several_processes_share_the_tests_where_they_can(monkeypatch):
    monkeypatch.setattr(gpu_parts, "installed", lambda package: True)
    assert "-n 8 --dist worksteal" in " ".join(pytest_command())
    monkeypatch.setattr(gpu_parts, "installed", lambda package: False)
    assert "-n" not in pytest_command()


@pytest.mark.parametrize(("marked", "expected"), [([True, True], False), ([True, False], True), ([], True)])
def test_numba_is_not_compiled_for_tests_of_a_gpu(marked, expected):
    items = [SimpleNamespace(get_closest_marker=lambda name, mark=mark: mark or None) for mark in marked]
    assert needs_numba(items) is expected


def test_the_table_of_targets_tells_what_holds_and_what_nobody_measured():
    for measured, verdict in ((results(), "holds"), ({}, "not measured")):
        judged = [target._asdict() for target in targets(measured)]
        text = command.targets_table(judged)
        assert text.count(verdict) == len(judged)
        assert text.endswith(f"{len(judged) if measured else 0} of {len(judged)} targets hold")


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


def instead_of_python(monkeypatch, path, script):
    path.write_text(f"#!/bin/sh\n{script}", encoding="utf-8")
    path.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(path))


def test_tests_that_take_too_long_are_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/sleep")  # refuses -m, and ends at once
    assert gpu_parts.tests(Setting(600.0, tmp_path, dict(os.environ), torch=False))["code"] not in (0, None)
    instead_of_python(monkeypatch, tmp_path / "slow", "echo begun\nexec sleep 3600\n")
    log, looks = tmp_path / "tests.txt", []

    class FakeTime:
        """Replaces the module time: the time is over as soon as the tests have begun."""

        def monotonic(self):
            while looks and log.read_text(encoding="utf-8") != "begun\n":
                time.sleep(0.01)
            looks.append(1e6 * len(looks))
            return looks[-1]

    monkeypatch.setattr(gpu_parts, "time", FakeTime())
    outcome = gpu_parts.tests(Setting(600.0, tmp_path, dict(os.environ), torch=False))
    assert looks == [0, 1e6]
    assert (outcome["code"], outcome["summary"]) == (None, "stopped in the middle of: begun")


def test_cupys_reductions_are_not_compiled_with_cub_for_tests(tmp_path, monkeypatch):
    instead_of_python(monkeypatch, tmp_path / "says", 'echo "accelerators: <${CUPY_ACCELERATORS-cub}>"\n')
    outcome = gpu_parts.tests(Setting(20.0, tmp_path, dict(os.environ), torch=False))
    assert outcome["summary"] == "accelerators: <>"


def test_a_contender_that_takes_too_long_is_stopped(monkeypatch):
    entry = Entry("slow", "tests.benchmarks.sleepers:sleeper", {"seconds": 3600.0})
    with (
        pytest.raises(ContenderError, match=r"slow: expected an answer, it ended with code -9:\n +no output"),
        turns.contenders([entry], os.environ, seconds=3.0) as (child,),
    ):
        child.run("nap", 1)


@pytest.mark.skipif(cupy_problem() is None, reason="a GPU answers")
def test_without_a_gpu_one_error_says_what_is_missing(tmp_path, refused):
    message = refused(command.main, "--against none --out", tmp_path / "out")
    assert message.startswith("benchmarks: --device cupy: ")
    assert len(message.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_the_pages_commands_are_understood_and_leave_nothing_out():
    page = (ROOT / "docs" / "gpu.md").read_text(encoding="utf-8")
    lines = re.findall(r"^python -m benchmarks\.gpu (.*?)(?: *#.*)?$", page, re.MULTILINE)
    part_names = [[part.name for part in command.checked(command._parser().parse_args(line.split()))] for line in lines]
    assert sorted(set().union(*part_names)) == sorted(part.name for part in parts())
    assert not any(name.startswith("against") for name in part_names[0] + part_names[1])


def test_the_pages_extras_exist():
    page, settings = ((ROOT / name).read_text(encoding="utf-8") for name in ("docs/gpu.md", "setup.cfg"))
    extras = {name for part in re.findall(r"\[([a-z0-9,]+)\]", page) for name in part.split(",")}
    assert extras == {"test", "cuda12", "cuda13"}
    assert all(f"\n{name} =" in settings for name in extras)
    for wheel in ("array-api-compat", "array-api-strict"):
        assert f"`{wheel}`" in page
        assert wheel in settings


def test_with_a_gpu_results_are_never_overwritten(tmp_path, monkeypatch, call, refused):
    clock = Clock()
    monkeypatch.setattr(command, "check_gpu", lambda torch: None)
    monkeypatch.setattr(command, "parts", lambda: [clock.part("train a", 1), clock.part("decode", 1)])
    options = "--against none --only train --out", tmp_path / "new"
    ended = call(command.main, *options).says("train a                done", "0 of 29 targets hold")
    assert ended.code == 1, "hardly anything was measured"
    assert "decode" not in ended.out
    assert "choose another folder, since nothing is overwritten" in refused(command.main, *options)
