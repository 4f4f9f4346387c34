"""The machine and the environment that a measurement was made in."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform

import numpy as np

PACKAGES = ("npformer", "numpy", "numba", "torch")
#: Settings that slow one side down, or limit its threads.
_SETTINGS = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")


def contenders_environment(keep: bool) -> tuple[dict[str, str], list[str]]:
    """(the environment for contenders, the names of variables that were taken out of it; keep: none)."""
    given = dict(os.environ)
    removed = [] if keep else sorted(name for name in given if name in _SETTINGS or name.endswith("_NUM_THREADS"))
    return {name: value for name, value in given.items() if name not in removed}, removed


def describe(removed: list[str], kept: bool) -> dict[str, str]:
    """Name -> what there is, in words: for the head of a report."""
    environment = f"without {', '.join(removed)}" if removed else "unchanged"
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": f"{_processor()}, {cores()} cores for this process",
        "python": f"{platform.python_version()}, {platform.system()} {platform.machine()}",
        "versions": ", ".join(f"{name} {version}" for name, version in _versions().items()),
        "BLAS of NumPy": _blas(),
        "environment": f"{environment}{' (--keep-env)' if kept else ''}",
        "precision": "float32",
    }


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass  # not Linux
    return platform.processor() or platform.machine()


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "missing"
    return found


def _blas() -> str:
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip()
