"""What tests of compiled parts share: small kernels around them, compiled as the package compiles its own."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import npformer
from npformer.backend.select import numba_problem
from npformer.layers import LayerNorm

PROBLEM = numba_problem()
if PROBLEM is None:
    from npformer.engine.numba import decode_step, work_sharing

PATIENCE = 600  # seconds until a test gives up on what would never happen


class SkippedFile(pytest.Module):
    """A file of tests for which Numba is missing."""

    def collect(self):
        pytest.skip(str(PROBLEM))


def pytest_pycollect_makemodule(module_path, parent):
    """Without Numba the files of this folder are skipped and the reason is shown; no file has to ask for it."""
    return None if PROBLEM is None else SkippedFile.from_parent(parent, path=module_path)


@pytest.fixture
def until():
    """until(true): wait until true() says so."""

    def wait(true):
        pause, end = threading.Event(), time.monotonic() + PATIENCE
        while not true() and time.monotonic() < end:
            pause.wait(0.005)

    return wait


@pytest.fixture(scope="session")
def run_apart():
    """run_apart(program, …): what it says on stdout, and the lines on stderr, in a process with this npformer.

    Or with a copy of it, in the folder package.
    """

    def run(program, package=Path(npformer.__file__).parent.parent, **environment):
        variables = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
        variables |= {"PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"} | environment
        done = subprocess.run([sys.executable, "-c", program], env=variables, cwd=package, capture_output=True,
                              text=True, timeout=PATIENCE, check=False)  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout, done.stderr.splitlines()

    return run


@pytest.fixture(params=["alone", "shared"])
def threads(request, monkeypatch):
    """Decoding steps of one thread, and of two; models are small in tests, and two threads would not share them."""
    if request.param == "shared":
        monkeypatch.setattr(decode_step, "WORTH_SHARING", 0)
    return str(request.param)


@pytest.fixture
def a_helper_falls_asleep(monkeypatch):
    """a_helper_falls_asleep(phase): whoever is invited takes a part of that phase, and does it when it is waited for.

    Returns the places where that was. No thread is needed for it, so no test hangs on which thread the system lets run.
    """

    def make(phase):
        invited_runs = []
        places = []

        def invite(job, shared):
            shared[work_sharing.PRESENT], shared[work_sharing.ASLEEP] = 1, phase
            invited_runs.append(job.args[1])
            places.append(shared)

        def wake_up(lost):
            """Give back the part that was taken from the back, as if nobody had taken it, and do it."""
            for run, *others in invited_runs:  # others: how often the helper looks among them
                shared = run.shared
                if shared[work_sharing.PRESENT] and any(shared is place for place in lost):
                    late = shared.copy()
                    late[work_sharing.LOST] = late[work_sharing.ASLEEP] = 0
                    opened = shared[work_sharing.TICKET] // work_sharing.MOST_PARTS**2
                    late[work_sharing.TICKET] = opened * work_sharing.MOST_PARTS**2 + run.sizes.parts - 1
                    decode_step.steps_of_tokens(run._replace(shared=late), *others)
                    assert late[work_sharing.DONE] == shared[work_sharing.DONE] + 1
                    shared[work_sharing.PRESENT] = 0

        monkeypatch.setattr(decode_step, "WORTH_SHARING", 0)
        monkeypatch.setattr(decode_step, "until_left", wake_up)
        monkeypatch.setattr(work_sharing.helper, "invite", invite)
        return places

    return make


@pytest.fixture
def change_stack():
    """change_stack(name, stack): replace an array, a layer, a norm or a norm's kind in a stack of three layers."""

    class Silent(LayerNorm):
        def forward(self, x, *, context):
            y, cache = super().forward(x)
            return y * 0, cache

    def change(name, stack):
        layers, weight = stack.layers, stack.layers[1].feed_forward.up.weight
        if name == "array":
            weight.data = weight.data * 0.9
        elif name == "layer":
            stack.layers = layers[::-1]
        else:
            kind = {"norm": LayerNorm, "kind": Silent}[name]
            layers[2].norm2 = kind(weight.data.shape[0], backend=layers[2].norm2.backend)

    return change
