"""Kernels are compiled once, said so and kept on disk; what does without them does not import Numba."""

import shutil
from pathlib import Path

import pytest

import npformer

#: One kernel is enough to see how it is done.
PREPARE = """
from npformer.engine.numba import adam, compiling
compiling.prepare([adam.update], "float32")
compiling.prepare([adam.update], "float32")
import numpy as np
p, g, m, v = np.ones((4, 3), "float32")
adam.update(p, g, m, v, 1.0, 0.9, 0.1, 1e-9, 1.0, 1.0)
print(p[0])
"""


@pytest.fixture
def run(run_apart):
    """run(program, …): what it says on stderr; on stdout only PREPARE says something."""

    def lines_of(program, **options):
        out, lines = run_apart(program, **options)
        assert out == ("" if PREPARE not in program else "0.0\n")
        return lines

    return lines_of


def is_announced(output):
    """Whether compiling was, in two lines, and nothing else said; or nothing at all."""
    assert not output or len(output) == 2
    assert not output or output[0] == "npformer: compiling 1 kernel for float32, once ..."
    assert not output or output[1].startswith("npformer: compiled in ")
    return bool(output)


def test_it_is_said_once_and_what_is_on_disk_is_loaded_in_silence(tmp_path, run):
    """Until a file is damaged, which is said, or a part in another file has changed."""
    program = PREPARE + 'assert adam.update.is_kept("float32")\n'
    package, cache = tmp_path / "package", tmp_path / "cache"
    shutil.copytree(Path(npformer.__file__).parent, package / "npformer", ignore=shutil.ignore_patterns("__pycache__"))
    outputs = [run(program, package=package, NUMBA_CACHE_DIR=str(cache)) for _ in range(2)]
    (stored,) = (cache / "npformer").iterdir()
    damaged = bytearray(stored.read_bytes())
    damaged[len(damaged) // 2] ^= 4  # no more than a bit
    stored.write_bytes(damaged)
    outputs += [run(program, package=package, NUMBA_CACHE_DIR=str(cache)) for _ in range(2)]
    assert "got files that are damaged or somebody else's" in outputs[2].pop(0)
    part = package / "npformer/engine/numba/compiling.py"
    part.write_text(part.read_text(encoding="utf-8") + "\n# changed\n", encoding="utf-8")
    outputs += [run(program, package=package, NUMBA_CACHE_DIR=str(cache))]
    assert list(map(is_announced, outputs)) == [True, False, True, False, True]
    assert len(list((cache / "npformer").iterdir())) == 2  # the old version's is left to a checkout that has it


def test_with_nowhere_to_keep_kernels_they_are_compiled_all_the_same(tmp_path, run):
    """A file stands where the folder would be, and no other can be made either."""
    (tmp_path / "npformer").touch()
    nowhere = """
import tempfile
def refuse(*given, **more):
    raise OSError(30, "Read-only file system")
tempfile.mkdtemp = refuse
"""
    output = run(nowhere + PREPARE, NUMBA_CACHE_DIR=str(tmp_path))
    assert f"{tmp_path / 'npformer'}: expected a folder for compiled kernels" in output[0]
    assert is_announced(output[1:])


def test_a_full_disk_costs_time_and_is_told(tmp_path, run):
    full = """
import os
def no_space(*given):
    raise OSError(28, "No space left on device")
os.replace = no_space
"""
    output = run(full + PREPARE, NUMBA_CACHE_DIR=str(tmp_path))
    assert "expected room for compiled kernels, got: No space left on device" in output.pop(1)
    assert is_announced(output)
    assert list((tmp_path / "npformer").iterdir()) == []


def test_neither_npformer_nor_kernels_without_numba_import_it(run):
    program = """
import sys
import npformer
for kernels in ("numpy", "plain"):
    npformer.get_backend("numpy", kernels=kernels)
assert "numba" not in sys.modules and "llvmlite" not in sys.modules
"""
    assert run(program) == []


def test_ones_own_pair_is_checked_without_numba_and_without_pictures(tmp_path, run):
    program = """
import sys
import numpy as np
import npformer as npf
pair = (lambda x: (np.sin(x), x), lambda dy, x: (dy * np.cos(x),))
x = np.random.default_rng(0).normal(size=(3, 4))
for check in (npf.gradcheck, npf.certify):
    assert check(pair, x).ok
assert {"numba", "llvmlite", "matplotlib"}.isdisjoint(sys.modules)
"""
    assert run(program, NUMBA_CACHE_DIR=str(tmp_path)) == []
    assert list(tmp_path.iterdir()) == []


def test_the_first_call_compiles_once_whoever_makes_it(tmp_path, run):
    """Other threads that come meanwhile wait; arguments that a kernel does not take are refused as ever."""
    program = """
import threading
import numpy as np
from npformer.engine.numba import compiling, add_and_compare
compiled = []
before = compiling.Kernel.compile
compiling.Kernel.compile = lambda kernel, dtype: compiled.append((kernel.name, dtype)) or before(kernel, dtype)
def call():
    a, b, y = np.ones((3, 4), "float32")
    add_and_compare.add(a, b, y)
    assert y.tolist() == [2.0] * 4
threads = [threading.Thread(target=call) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert compiled == [("add_and_compare.add", "float32")]
assert len(add_and_compare.add.dispatcher.signatures) == 1
for wrong in (np.ones((4, 1), "float32"), np.ones(4, "int64"), "a"):
    try:
        add_and_compare.add(wrong, np.ones(4, "float32"), np.ones(4, "float32"))
    except TypeError:
        continue
    raise AssertionError(wrong)
assert compiled == [("add_and_compare.add", "float32")]
"""
    assert is_announced(run(program, NUMBA_CACHE_DIR=str(tmp_path)))
