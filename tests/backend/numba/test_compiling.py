"""Kernels are compiled once, said so, kept on disk, and never in the middle of training."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npformer
from npformer.backend import get_backend
from npformer.decoding import greedy
from npformer.models import Transformer, TransformerConfig
from npformer.optim import Adam
from npformer.training import TrainStep

#: One kernel is enough to see how it is done.
PREPARE = """
from npformer.backend.numba import adam, compiling
compiling._kernels[:] = [adam.update]
compiling.prepare("float32")
compiling.prepare("float32")
import numpy as np
p, g, m, v = np.ones((4, 3), "float32")
adam.update(p, g, m, v, 1.0, 0.9, 0.1, 1e-9, 1.0, 1.0)
print(p[0])
"""


@pytest.fixture(autouse=True)
def needs_numba() -> None:
    pytest.importorskip("numba")


def run(program: str, package: Path | None = None, **environment: str) -> list[str]:
    """A program in a process of its own, with this package or a copy of it: what it says on stderr."""
    folder = package or Path(npformer.__file__).parent.parent
    variables = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    variables |= {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"} | environment
    done = subprocess.run([sys.executable, "-c", program], env=variables, cwd=folder, capture_output=True, text=True,
                          timeout=600, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == ("" if PREPARE not in program else "0.0\n")
    return done.stderr.splitlines()


def is_announced(said: list[str]) -> bool:
    """Whether compiling was, in two lines, and nothing else said; or nothing at all."""
    assert not said or len(said) == 2
    assert not said or said[0] == "npformer: compiling 1 kernels for float32, once ..."
    assert not said or said[1].startswith("npformer: compiled in ")
    return bool(said)


def test_it_is_said_once_and_what_is_on_disk_is_loaded_in_silence(tmp_path: Path) -> None:
    """Until a file is damaged, or a part in another file changed: Numba itself looks at a kernel's own file alone."""
    package, cache = tmp_path / "package", tmp_path / "cache"
    shutil.copytree(Path(npformer.__file__).parent, package / "npformer", ignore=shutil.ignore_patterns("__pycache__"))
    said = [run(PREPARE, package, NUMBA_CACHE_DIR=str(cache)) for _ in range(2)]
    stored = sorted(cache.rglob("*.nb?"))
    assert len(stored) == 2  # an index, and one kernel
    for file in stored:
        file.write_bytes(b"")  # as a power cut may leave it
    said += [run(PREPARE, package, NUMBA_CACHE_DIR=str(cache)) for _ in range(2)]
    part = package / "npformer/backend/numba/exponential.py"
    part.write_text(part.read_text(encoding="utf-8") + "\n# changed\n", encoding="utf-8")
    said += [run(PREPARE, package, NUMBA_CACHE_DIR=str(cache))]
    assert list(map(is_announced, said)) == [True, False, True, False, True]


def test_with_nowhere_to_keep_kernels_they_are_compiled_all_the_same(tmp_path: Path) -> None:
    """Neither the package's folder nor the user's can be written."""
    nowhere = """
import numba.core.caching as caching
def refuse(*given):
    return None
for locator in caching.CacheImpl._locator_classes:
    locator.from_function = classmethod(refuse)
"""
    assert is_announced(run(nowhere + PREPARE))


def test_a_full_disk_costs_time_and_nothing_else(tmp_path: Path) -> None:
    full = """
import numba.core.caching as caching
def no_space(*given):
    raise OSError(28, "No space left on device")
caching.IndexDataCacheFile.save = no_space
caching.IndexDataCacheFile.flush = no_space
"""
    assert is_announced(run(full + PREPARE, NUMBA_CACHE_DIR=str(tmp_path)))


def test_neither_npformer_nor_kernels_without_numba_import_it() -> None:
    program = """
import sys
import npformer
for kernels in ("numpy", "plain"):
    npformer.get_backend("numpy", kernels=kernels)
assert "numba" not in sys.modules and "llvmlite" not in sys.modules
"""
    assert run(program) == []


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_training_and_decoding_compile_nothing_more(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writable array where one is only read, a NumPy number: Numba would have a kernel of its own for each."""
    from npformer.backend.numba import compiling

    backend = get_backend("numpy", dtype, kernels="numba", threads=2)
    ids = np.random.default_rng(0).integers(1, 9, size=(6, 5))
    variants: list[dict[str, Any]] = [
        {},
        {"norm_order": "pre", "activation": "gelu", "positions": "learned", "tie_embeddings": True, "recompute": True},
    ]
    for changes in variants:
        config = TransformerConfig(9, 9, d_model=8, num_heads=2, num_encoder_layers=1, num_decoder_layers=1, d_ff=12,
                                   max_seq_len=8, **changes)  # fmt: skip
        model = Transformer(config, backend=backend)
        step = TrainStep(model, Adam(model.arena), clip_norm=np.float32(1.0), accumulate=2, label_smoothing=0.1)  # type: ignore[arg-type]
        step(ids, ids, ids)
        greedy(model, ids[:1], max_len=4)
        greedy(model, ids, max_len=4)
    for kernel in compiling._kernels:
        assert len(kernel.dispatcher.signatures) == len({kernel.types(ready) for ready in compiling._ready})


def test_what_kernels_take() -> None:
    from npformer.backend.numba import takes

    assert [letter for letter in "fdgeFDG?bBhHiIlLqQ" if takes(letter)] == ["f", "d"]
