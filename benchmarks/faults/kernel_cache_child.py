"""The child process of ``kernel_cache``: load one damaged kernel after the other and report each outcome."""

import json
import os
import sys

import numpy as np

from npformer.engine.numba import add_and_compare, kernel_files, kernel_folder
from npformer.engine.numba.compiling import Kernel, inlined, named


def main():
    """Arguments: JSON of the cases, (kernel, folder) each, and whether to skip the digest check."""
    cases, unchecked = json.loads(sys.argv[1])
    if unchecked:
        kernel_files.read = lambda path, key: path.read_bytes()[kernel_files.HEAD :] if path.exists() else None
    for name, folder in cases:
        os.environ[kernel_folder.VARIABLE] = folder
        kernel_folder.place.cache_clear()
        print(json.dumps(outcome(named(name))), flush=True)


def outcome(known):
    """Whether this kernel's file in this folder was refused, and the outcome of running the kernel."""
    kernel, noticed = Kernel(inlined(known.dispatcher.py_func)), False
    try:
        noticed = not kernel.load("float32")
        if noticed:
            kernel.compile("float32")
        return noticed, "right" if RUNS[known.name](kernel) else "wrong"
    except Exception:
        return noticed, "error"


def _compares(kernel):
    x, y = np.arange(1000), np.ones(1000, np.bool_)
    kernel(x, 7, y)
    return bool(np.array_equal(y, x != 7))


def _adds(kernel):
    rng = np.random.default_rng(0)
    a, b, y = rng.random(1000, "float32"), rng.random(100, "float32"), np.zeros(1000, "float32")
    kernel(a, b, y)
    return bool(np.array_equal(y, a + np.tile(b, 10)))


RUNS = {add_and_compare.compare.name: _compares, add_and_compare.add.name: _adds}

if __name__ == "__main__":
    main()
