"""Damaged files of compiled kernels: does any crash the process or give a wrong result?

Two small kernels are compiled and cached. Then one of their files is damaged, in a separate folder, and a process
loads the kernel from there, or recompiles it, and runs it. This is repeated for every kind of damage that a failing
or full disk, a power cut or a wrong copy may do. A process that ends before it reports its outcome, or is silent for
two minutes, counts as a crash.
"""

import os
import random
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.survivors import answers
from npformer.backend.select import numba_problem

RESULTS = ("right", "wrong", "error", "crash")
KERNELS = ("add_and_compare.compare", "add_and_compare.add")


def flipped(data, other, rng):
    """The file with one bit flipped."""
    changed = bytearray(data)
    changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def zeroed(data, other, rng):
    """The file with a block of up to 4096 bytes that was never written."""
    start, size = rng.randrange(len(data)), rng.randrange(1, 4097)
    return data[:start] + bytes(len(data[start : start + size])) + data[start + size :]


#: Each makes a file from its bytes and those of the other kernel's file.
DAMAGES = {
    "a bit flipped": flipped,
    "cut short": lambda data, other, rng: data[: rng.randrange(1, len(data))],
    "a block of zeros": zeroed,
    "another kernel's": lambda data, other, rng: other,
    "something appended": lambda data, other, rng: data + rng.randbytes(rng.randrange(1, 4097)),
    "emptied": lambda data, other, rng: b"",
}


def injected(count, kernels):
    """The table: a row for each kind of damage, and one for all."""
    if problem := numba_problem():
        raise SystemExit(problem)
    with tempfile.TemporaryDirectory(prefix="kernel-cache-") as folder:
        measured = measure(Path(folder), count)
    rows = []
    for kind in (*DAMAGES, "all"):
        outcomes = [outcome for each, outcome in measured if kind in (each, "all")]
        counts = [sum(result == name for _, result in outcomes) for name in RESULTS]
        rows.append([kind, len(outcomes), sum(seen for seen, _ in outcomes), *counts])
    return ("damage", "files", "noticed", *RESULTS), rows, any(outcome != [True, "right"] for _, outcome in measured)


def measure(folder, count):
    """Try count damaged files. Returns (the kind of damage, the outcome) of each."""
    whole = [[name, str(folder / "whole")] for name in KERNELS]
    outcomes = tried(whole) + tried(whole)
    if outcomes != [[True, "right"]] * 2 + [[False, "right"]] * 2:
        raise RuntimeError(f"expected kernels to be compiled, kept and found again, got {outcomes}")
    cases = list(damaged(folder, folder / "whole" / "npformer", count, random.Random(0)))
    return list(zip((kind for kind, *_ in cases), tried([rest for _, *rest in cases]), strict=True))


def damaged(folder, whole, count, rng):
    """(kind, kernel, folder) of one damaged file each, every kind of damage in turn."""
    files = {kernel: next(whole.glob(f"{kernel}-*")) for kernel in KERNELS}
    for i in range(count):
        kind, kernel = list(DAMAGES)[i % len(DAMAGES)], KERNELS[i // len(DAMAGES) % 2]
        data = original = files[kernel].read_bytes()
        other = files[KERNELS[1 - KERNELS.index(kernel)]].read_bytes()
        while data == original:  # the block may have been zeros before
            data = DAMAGES[kind](original, other, rng)
        place = folder / str(i) / "npformer"
        place.mkdir(parents=True, mode=0o700)
        (place / files[kernel].name).write_bytes(data)
        yield kind, kernel, str(place.parent)


def tried(cases):
    """[whether a file was refused, "right", "wrong", "error" or "crash"] of each (kernel, folder)."""
    said = answers("tests.faults.kernel_cache:loaded", cases, 120, 25)
    return [[False, "crash"] if isinstance(answer, dict) else answer for answer in said]


def loaded(name, folder):
    """The outcome of one file, in a process of its own."""
    from npformer.engine.numba import add_and_compare, kernel_folder
    from npformer.engine.numba.compiling import Kernel, inlined, named

    os.environ[kernel_folder.VARIABLE] = folder
    kernel_folder.place.cache_clear()
    known, noticed = named(name), False
    kernel = Kernel(inlined(known.dispatcher.py_func))
    try:
        noticed = not kernel.load("float32")
        if noticed:
            kernel.compile("float32")
        is_right = adds(kernel) if known.name == add_and_compare.add.name else compares(kernel)
        return [noticed, "right" if is_right else "wrong"]
    except Exception:
        return [noticed, "error"]


def compares(kernel):
    """Whether the kernel compares as it should."""
    x, y = np.arange(1000), np.ones(1000, np.bool_)
    kernel(x, 7, y)
    return bool(np.array_equal(y, x != 7))


def adds(kernel):
    """Whether the kernel adds as it should."""
    rng = np.random.default_rng(0)
    a, b, y = rng.random(1000, "float32"), rng.random(100, "float32"), np.zeros(1000, "float32")
    kernel(a, b, y)
    return bool(np.array_equal(y, a + np.tile(b, 10)))
