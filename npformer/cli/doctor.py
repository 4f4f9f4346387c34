"""npformer doctor: what is installed, what works, and what --device auto picks."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import subprocess
import sys
import textwrap

import numpy as np

from npformer._version import __version__
from npformer.backend import cupy_problem, get_backend
from npformer.backend.numpy.blas import blas_core, blas_threads
from npformer.backend.select import auto_kernels, numba_problem
from npformer.cli.common import finished
from npformer.engine.thread_pool import cores
from npformer.extras import install
from npformer.io.terminal import GREEN, RED, YELLOW, columns, paint
from npformer.run.world import THREAD_VARIABLES

SUMMARY = "Show what npformer finds on this machine."
EXAMPLES = "example:\n  npformer doctor --json  packages, BLAS, processor, GPU"
GPU, PATIENCE = "GPU", 120  # seconds that a GPU may take: the first run compiles its kernels
#: The command that tries the GPU with the number that follows.
TRY = [sys.executable, "-m", "npformer.engine.cupy.self_test"]
PACKAGES = ("numpy", "array-api-compat", "tqdm", "safetensors")


def add_options(parser: argparse.ArgumentParser) -> None:
    """There are none but those of every command."""


def run(args: argparse.Namespace) -> int:
    """Exit 1 if a required package is missing, the arithmetic is wrong, or a GPU fails."""
    facts = examine()
    width = max(map(len, facts)) + 2
    text = "\n".join(_entry(name, value, width) for name, value in facts.items())
    return finished(args, facts, text, not any(fails(*fact) for fact in facts.items()))


def examine() -> dict[str, str]:
    """Findings by name, in words."""
    problem = cupy_problem()
    auto, compiled = get_backend("auto", kernels="plain"), numba_problem()  # other kernels may have to compile first
    return {
        "npformer": __version__,
        "python": f"{platform.python_version()} ({sys.executable})",
        "system": f"{platform.system()} {platform.machine()}, {cores()} cores",
        **{name: _version(name) for name in PACKAGES},
        "BLAS": blas_name(),
        "BLAS core": _core(),
        "BLAS threads": _threads(),
        "Numba": _numba(compiled),
        "MKL": _mkl(compiled),
        "--kernels auto": ", because ".join(auto_kernels()),
        "CuPy": problem.removeprefix("CuPy is ") if problem else _cupy(auto.device.name),
        "--device auto": f"{auto.name}, because {'CuPy cannot be used' if problem else 'a GPU answers'}",
        "arithmetic": _arithmetic(),
        **({} if problem else {f"{GPU} {number}": tried_alone(number) for number in range(visible())}),
    }


def fails(name: str, value: str) -> bool:
    """Whether a package is missing that has to be there, or what was tried is not "ok"."""
    return value == "missing" or (name.startswith(("arithmetic", GPU)) and value != "ok")


def visible() -> int:
    """How many GPUs CUDA shows."""
    number: int = importlib.import_module("cupy").cuda.runtime.getDeviceCount()
    return number


def tried_alone(number: int) -> str:
    """What ``self_test`` says of the GPU with this number, in a process of its own, since a GPU may hang."""
    try:
        done = subprocess.run([*TRY, str(number)], capture_output=True, text=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        return f"expected an answer within {PATIENCE} s, got none; nvidia-smi shows whether another process uses it"
    lines = [*done.stdout.splitlines(), *done.stderr.splitlines()[-1:]]
    return lines[-1] if lines else f"expected an answer, got exit code {done.returncode}"


def _entry(name: str, value: str, width: int) -> str:
    """A finding, its value in lines beside the name, and in colour if it is good or bad."""
    colour = (
        RED if fails(name, value) else YELLOW if value.startswith("not installed") else GREEN if value == "ok" else ""
    )
    wrapped = textwrap.wrap(value, columns() - width, break_long_words=False, break_on_hyphens=False)
    lines = [value] if " install " in value else wrapped  # a command can be pasted
    shown = f"\n{' ' * width}".join(paint(line, colour) if colour else line for line in lines)
    return f"{name.ljust(width)}{shown}"


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "missing"


def _numba(problem: str | None) -> str:
    """The version; if it is not installed, how to install it and why."""
    version = _version("numba")
    if version == "missing":  # "missing" would count as a failure, and this package is optional
        return f"not installed: {install('fast')} brings compiled kernels; npformer bench compares"
    return problem or version


def _mkl(problem: str | None) -> str:
    """Whether compiled kernels use it for their products, and if not, why."""
    version = _version("mkl")
    if version == "missing":
        return f"not installed: {install('mkl')} makes Numba kernels faster on Intel's processors"
    if problem:
        return f"{version}, not used: there are no compiled kernels"
    from npformer.engine.numba.intel import intel

    return f"{version}, not used: {intel().problem}" if intel().problem else version


def blas_name() -> str:
    """The BLAS that NumPy was built with."""
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip()


def _core() -> str:
    """OpenBLAS's core type, and the setting that overrides the processor's own."""
    core, asked = blas_core(), os.environ.get("OPENBLAS_CORETYPE")
    if core is None:
        return "unknown: NumPy's BLAS is not OpenBLAS"
    return f"{core} (OPENBLAS_CORETYPE={asked})" if asked else core


def _threads() -> str:
    """Threads of one product, and the setting that limits them; training gives each part of a batch one thread."""
    now = blas_threads()
    variables = [f"{name}={os.environ[name]}" for name in THREAD_VARIABLES if name in os.environ]
    limits = ", ".join(variables) or "not limited by the environment"
    return f"{'unknown' if now is None else now}; {limits}"


def _cupy(device: str) -> str:
    """CuPy's version, the driver's version, and the device."""
    cupy = importlib.import_module("cupy")
    number = cupy.cuda.runtime.driverGetVersion()
    return f"{cupy.__version__}, driver CUDA {number // 1000}.{number % 1000 // 10}, {device}"


def _arithmetic() -> str:
    """Compare a product and a sum in float32 with float64; this reveals a broken BLAS."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(64, 300)), rng.normal(size=(300, 64))
    error = float(np.max(np.abs(a.astype(np.float32) @ b.astype(np.float32) - a @ b)))
    return "ok" if error < 1e-3 else f"a float32 product is off by {error:.1e}: NumPy's BLAS is broken here"
