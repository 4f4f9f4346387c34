"""The parts of a GPU run, the most important first. Each returns values that fit into JSON."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import decode, train_step
from benchmarks.gpu.targets import SIZES, against_part, train_part
from benchmarks.harness import ROOT, Budget, Entry, contenders
from benchmarks.options import installed
from benchmarks.own.model import save_weights
from npformer.models.presets import PRESETS

DROPOUT = 0.1
PRECISIONS = ("tf32", "float32")  # that the targets name, the more important first
OURS = {"npformer-cuda": "one", "npformer-cuda-eager": "none"}  # a recorded graph a step; nothing recorded
PEERS = {"torch-fast": "fast", "torch-graph": "graph", "torch-reduce-overhead": "reduce_overhead"}
OPTIONAL = ("torch-graph", "torch-reduce-overhead")  # may be missing: without a compiler, or if a capture is refused
TRAINING = Budget(seconds=6.0, turn=0.15)
DECODING = Budget(seconds=4.0, turn=0.05)
#: The files with tests marked gpu. Collecting the whole suite would take longer than running these tests.
TESTS = (
    "tests/test_gpu.py", "tests/test_contract.py", "tests/engine/cuda/test_gpu_kernels.py",
    "tests/backend/test_ops.py",
    "tests/interop/test_torch.py", "tests/layers/test_embedding.py", "tests/models/test_decoding_steps.py",
)  # fmt: skip
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
        *steps("tf32", train_part, False),
        Part("reverse", 20, partial(once, "reverse", {"precision": "tf32"})),
        Part("gradients", 20, partial(once, "gradients", {"kernels": "cuda"})),
        Part("batches", 60, partial(once, "batches", {"precision": "tf32"})),
        *steps("tf32", against_part, True),
        *steps("float32", train_part, False),
        *steps("float32", against_part, True),
        Part("decode", 50, decoding),
    ]


def steps(precision, name, peers):
    """Training steps of each size, alone or in turns with the peers."""
    seconds = {"base": 80 if peers else 22}
    return [
        Part(name(size, precision), seconds.get(size, 50 if peers else 15), partial(train, size, precision, peers))
        for size in SIZES
    ]


def train(size, precision, peers, setting):
    """A training step, with its rates, and its time until ready."""
    with tempfile.TemporaryDirectory() as folder:
        started = entries(size, precision, save_weights(PRESETS[size], Path(folder)) if peers else None)
        with contenders(started, setting.environment, setting.seconds) as children:
            result = train_step.measured(children, size, DROPOUT, precision, TRAINING)
    ready = {child.name: child.facts["ready_seconds"] for child in children}
    for row in result["contenders"]:
        row |= {"kernels": row.get("kernels"), "ready_seconds": ready[row["name"]]}
    return result | {"left_out": sorted({entry.name for entry in started} - ready.keys())}


def entries(size, precision, weights):
    """npformer's ways to launch; with weights also PyTorch's forms."""
    common = {"size": size, "dropout": DROPOUT, "device": "cupy", "precision": precision}
    own, peer = "benchmarks.own.train:train", "benchmarks.peers.torch_train"
    found = [Entry(name, own, {**common, "kernels": "cuda", "launch": launch}) for name, launch in OURS.items()]
    for name, form in PEERS.items() if weights else ():
        found.append(Entry(name, f"{peer}:{form}", {**common, "weights": weights}, optional=name in OPTIONAL))
    return found


def ceilings(setting):
    """The GPU's peak rate of products, in each precision."""
    common = {"device": "cupy", "precisions": PRECISIONS, "kernels": "cuda"}
    with contenders(
        [Entry("ceilings", "benchmarks.own.gpu:ceilings", common)], setting.environment, setting.seconds
    ) as (child,):
        return child.run("ceilings", 1)[1][0]


def decoding(setting):
    """Greedy decoding of one sentence, and of many."""
    what = {"size": "small", "tokens": 64, "batches": [1, 32], "device": "cupy", "precision": "tf32"}
    own = [Entry("npformer-cuda", "benchmarks.own.decode:decode", {**what, "kernels": "cuda"})]
    return list(decode.beside(own, what, setting.torch, setting.environment, DECODING, setting.seconds))


def once(task, words, setting):
    """The value of one task of ``own.gpu``."""
    entry = Entry(task, f"benchmarks.own.gpu:{task}", {"device": "cupy", **words})
    with contenders([entry], setting.environment, setting.seconds) as (child,):
        return child.run(task, 1)[1][0]


def tests(setting):
    """Run the tests marked gpu; meanwhile torch.compile fills its cache for the later measurements."""
    log, start = setting.folder / "tests.txt", time.monotonic()
    with log.open("w", encoding="utf-8") as said:
        environment = {**os.environ, **FOR_TESTS}
        running = subprocess.Popen(
            pytest_command(), cwd=ROOT, stdout=said, stderr=said, start_new_session=True, env=environment
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
    shared = ["-n", "8", "--dist", "worksteal"] if installed("xdist") else []
    return [sys.executable, "-m", "pytest", "-p", "no:benchmark", "-m", "gpu", "-q", *shared, *TESTS]


def summary(output, code):
    """pytest's last line and the number of passed tests; code None: pytest was stopped."""
    lines = [line.strip("= ") for line in output.splitlines() if line.strip()] or ["no output"]
    passed = re.search(r"(\d+) passed", lines[-1])
    last = lines[-1] if code is not None else f"stopped in the middle of: {lines[-1]}"
    return {"code": code, "passed": int(passed[1]) if passed else 0, "summary": last}


def compile_ahead(setting):
    """Let torch.compile compile for every size and precision at once: seconds until each was ready, if it was."""
    with tempfile.TemporaryDirectory() as folder:
        found = []
        for size, precision in product(SIZES, PRECISIONS):
            place = Path(folder) / f"{size}, {precision}"
            place.mkdir()
            last = entries(size, precision, save_weights(PRESETS[size], place))[-1]
            found.append(last._replace(name=place.name))
        environment = {**setting.environment, "TORCHINDUCTOR_COMPILE_THREADS": "1"}
        with contenders(found, environment, setting.seconds) as children:
            return {child.name: child.facts["ready_seconds"] for child in children}
