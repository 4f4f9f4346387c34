"""The machine and the environment that a measurement was made in."""

import datetime
import hashlib
import importlib.metadata
import os
import platform
import shlex
import subprocess
import sys
from contextlib import suppress

from benchmarks.harness import ROOT
from npformer.cli.doctor import blas_name
from npformer.engine.thread_pool import cores

PACKAGES = ("npformer", "numpy", "numba", "torch")
CUPY = ("cupy", "cupy-cuda12x", "cupy-cuda13x")  # one package, several names
PROGRAM = ("npformer", "benchmarks", "examples", ":!benchmarks/results")  # what a measurement depends on
#: Settings that slow one side down, or limit its threads.
_SETTINGS = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")


def contenders_environment():
    """(the environment for contenders, the names of variables removed from it, which slow one side down)."""
    removed = sorted(name for name in os.environ if name in _SETTINGS or name.endswith("_NUM_THREADS"))
    return {name: value for name, value in os.environ.items() if name not in removed}, removed


def describe(removed, device, precisions):
    """Name -> description of the machine and software; removed: variables of the environment."""
    gpu = {"GPU": _gpu(), "kernels": kernels()} if device == "cupy" else {}
    return {
        "command": command(),
        "commit": commit(),
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": f"{_processor()}, {cores()} cores for this process",
        **gpu,
        "python": f"{platform.python_version()}, {platform.system()} {platform.machine()}",
        "versions": ", ".join(f"{name} {version}" for name, version in _versions().items()),
        "BLAS of NumPy": blas_name(),
        "environment": f"without {', '.join(removed)}" if removed else "unchanged",
        "precision": ", ".join(precisions),
    }


def command():
    """The command line of this process, as typed: python -m benchmarks.train_step …"""
    return shlex.join(["python", *sys.orig_argv[1:]])


def commit():
    """The measured commit, and whether files have changed since; "unknown" outside of a checkout."""
    try:
        name, changes = (
            subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True, timeout=20).stdout
            for words in (("rev-parse", "--short=10", "HEAD"), ("status", "--porcelain", "-uno", "--", *PROGRAM))
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return f"{name.strip()}{' and changes' if changes else ''}"


def kernels():
    """What tells these CUDA kernels from those of another commit: the start of a digest of their sources."""
    sources = sorted((ROOT / "npformer" / "engine" / "cuda").glob("*.cu*"))
    texts = (part for file in sources for part in (file.name.encode(), file.read_bytes()))
    return hashlib.sha256(b"\0".join(texts)).hexdigest()[:10]


def _processor():
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:  # of Linux
        for line in lines:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _versions():
    versions = dict.fromkeys(PACKAGES, "missing")
    for name in (*PACKAGES, *CUPY):
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions


def _gpu():
    """Name, driver and memory, from nvidia-smi."""
    command = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    try:
        gpu = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown: nvidia-smi does not tell"
    return "; ".join(gpu.splitlines())
