"""The parts of a GPU run, the most important first. Each part returns values that fit into JSON."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import decode as decoding
from benchmarks import on_gpu, ops, train_step
from benchmarks.gpu.targets import SIZES, against_part, train_part
from benchmarks.options import installed
from benchmarks.own.model import save_weights
from benchmarks.turns import ROOT, Budget, Entry, contenders
from npformer.models.presets import PRESETS

DROPOUT = 0.1
TRAINING = Budget(seconds=6.0, turn=0.15)
SHORT = Budget(seconds=0.4, turn=0.05)
FIRST, LAST = ("tf32",), ("float32",)  # precisions that the targets name
#: The files with tests marked gpu. Collecting the whole suite would take longer than running these tests.
TESTS = (
    "tests/test_gpu.py", "tests/test_contract.py", "tests/engine/cuda/test_gpu_kernels.py",
    "tests/backend/test_ops.py",
    "tests/interop/test_torch.py", "tests/layers/test_embedding.py", "tests/models/test_decoding_steps.py",
)  # fmt: skip
#: pytest processes that share these tests.
AT_ONCE = 8
#: CuPy would compile each reduction with CUB, which takes 3 to 4 seconds; without CUB it compiles like other kernels.
FOR_TESTS = {"CUPY_ACCELERATORS": ""}


@dataclass(frozen=True)
class Setting:
    """The settings that a part receives."""

    seconds: float  # time limit
    folder: Path  # for files
    environment: Mapping[str, str]
    torch: bool = True
    results: Mapping[str, Any] = field(default_factory=dict)  # results of earlier parts, by name

    def options(self, sizes, precisions, budget):
        """Options, as a command line would give them."""
        return Namespace(
            device="cupy", sizes=sizes, kernels=["cuda"], precisions=precisions, torch=self.torch, budget=budget
        )


class Part(NamedTuple):
    """A piece of work and its time limit in seconds."""

    name: str
    seconds: float
    do: Callable[[Setting], Any]


def parts():
    """All parts, in order of execution: npformer alone first, since a peer may take all the time."""
    return [
        Part("tests", 240, tests),
        Part("ceilings", 25, ceilings),
        *_training(FIRST),
        Part("reverse", 20, partial(single, "reverse", {"precision": "tf32"})),
        Part("gradients", 20, partial(single, "gradients", {"kernels": "cuda"})),
        Part("batches", 60, partial(single, "batches", {"precision": "tf32"})),
        *_against(FIRST),
        *_training(LAST),
        *_against(LAST),
        Part("decode", 50, decode),
        Part("ops", 60, operations),
    ]


def _training(precisions):
    """Training steps of npformer alone."""
    return _steps(train_part, alone, 15, 22, precisions)


def _against(precisions):
    """Training steps in turns with the peers."""
    return _steps(against_part, train, 50, 80, precisions)


def _steps(name, do, seconds, seconds_of_base, precisions):
    return [
        Part(name(size, precision), seconds_of_base if size == "base" else seconds, partial(do, size, precision))
        for precision in precisions
        for size in SIZES
    ]


def alone(size, precision, setting):
    """``train`` without peers."""
    return train(size, precision, replace(setting, torch=False))


def train(size, precision, setting):
    """One table of ``benchmarks.train_step``."""
    options = setting.options([size], [precision], TRAINING)
    known = setting.results.get("ceilings")
    (result,) = train_step.results(options, [DROPOUT], setting.environment, known, setting.seconds)
    return result


def ceilings(setting):
    """The GPU's peak rates, and the bytes that a step moves."""
    options = setting.options(SIZES, (*FIRST, *LAST), TRAINING)
    return on_gpu.measure_roofline(options, setting.environment, setting.seconds)


def decode(setting):
    """Greedy decoding of one sentence, and of many."""
    options = setting.options(["small"], ["tf32"], SHORT._replace(seconds=4.0))
    return list(decoding.results(options, [1, 32], 64, setting.environment, setting.seconds))


def operations(setting):
    """Every operation at one size."""
    options = setting.options(["mid"], ["tf32"], SHORT)
    return list(ops.results(options, ops.NAMES, 1, setting.environment, setting.seconds))


def single(task, words, setting):
    """The value of one task of ``own.once``."""
    entry = Entry(task, f"benchmarks.own.once:{task}", {"device": "cupy", **words})
    with contenders([entry], setting.environment, setting.seconds) as (child,):
        return child.run(task, 1)["values"][0]


def tests(setting):
    """Run the tests marked gpu; meanwhile torch.compile fills its cache for the later measurements."""
    log, start = setting.folder / "tests.txt", time.monotonic()
    with log.open("w", encoding="utf-8") as log_file:
        running = subprocess.Popen(
            pytest_command(),
            cwd=ROOT,
            stdout=log_file,
            stderr=log_file,
            start_new_session=True,
            env={**os.environ, **FOR_TESTS},
        )
        try:
            compiled = compile_ahead(setting) if setting.torch else {}
            code = running.wait(max(0.0, setting.seconds - (time.monotonic() - start)))
        except subprocess.TimeoutExpired:
            code = None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
            running.wait()
    return summary(log.read_text(encoding="utf-8"), code) | {"compile_seconds": compiled}


def pytest_command():
    """pytest for the tests marked gpu, in several processes where pytest-xdist is installed.

    pytest-benchmark, which machines made for PyTorch have, warns beside pytest-xdist; here a warning is an error.
    """
    shared = ["-n", str(AT_ONCE), "--dist", "worksteal"] if installed("xdist") else []
    return [sys.executable, "-m", "pytest", "-p", "no:benchmark", "-m", "gpu", "-q", *shared, *TESTS]


def summary(output, code):
    """pytest's last line and the number of passed tests; code None: pytest was stopped."""
    lines = [line.strip("= ") for line in output.splitlines() if line.strip()] or ["no output"]
    passed = re.search(r"(\d+) passed", lines[-1])
    last = lines[-1] if code is not None else f"stopped in the middle of: {lines[-1]}"
    return {"code": code, "passed": int(passed[1]) if passed else 0, "summary": last}


def compile_ahead(setting):
    """Compile PyTorch's captured forms, all at once: seconds until each was ready. Forms that fail are left out."""
    with tempfile.TemporaryDirectory() as folder:
        entries = []
        for size in SIZES:
            place = Path(folder) / size
            place.mkdir()
            weights = save_weights(PRESETS[size], place)
            options = setting.options([size], [], TRAINING)
            for precision in (*FIRST, *LAST):
                for entry in on_gpu.entries(options, size, DROPOUT, weights, precision):
                    if entry.name == "torch-reduce-overhead":
                        name = f"{size}, {precision}"
                        entries.append(entry._replace(name=name, optional=True))
        environment = {**setting.environment, "TORCHINDUCTOR_COMPILE_THREADS": "1"}
        with contenders(entries, environment, setting.seconds) as children:
            return {child.name: child.facts["ready_seconds"] for child in children}
