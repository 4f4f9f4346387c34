"""The emulated pool is CuPy's, and that of graphs gives nothing back: CuPy's own runs beside them, without a GPU."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from npformer.engine.cupy.graph_driver import CupyDriver, GraphPool
from tests.engine.cupy import real_pool
from tests.engine.cupy.emulated import Machine
from tests.engine.cupy.emulated_pool import CUDARuntimeError, pool_classes
from tests.engine.cupy.test_names import REASON

ROOT = Path(__file__).parents[3]


def emulated(pool, operations):
    """As the script answers."""
    machine, asked = Machine(), []
    machine.memory, machine.soil = lambda shape, dtype: asked.append(shape[0]) or np.empty(*shape), lambda buffer: None
    memory, kind = pool_classes(machine)
    cuda = SimpleNamespace(
        Memory=memory, MemoryPool=kind, MemoryPointer=lambda mem, offset: SimpleNamespace(mem=mem),
        runtime=SimpleNamespace(CUDARuntimeError=CUDARuntimeError),
    )  # fmt: skip
    other = kind()
    cupy = SimpleNamespace(cuda=cuda, get_default_memory_pool=lambda: other)
    graphs = GraphPool(cupy, "device") if pool == "of graphs" else None
    found = real_pool.outcomes(
        graphs.blocks if graphs else kind(), operations, room=lambda size: setattr(machine, "room", size),
        bound=lambda _: CupyDriver.bound(None, graphs),
    )  # fmt: skip
    return {"outcomes": found, "asked": asked}


def real(pool, operations):
    """As CuPy does it, in a process of its own."""
    if find_spec("cupy_backends") is None:
        pytest.skip(REASON)
    given = json.dumps({"pool": pool, "operations": operations})
    run = subprocess.run(
        [sys.executable, "-m", "tests.engine.cupy.real_pool"], input=given, capture_output=True, text=True, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])}, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("pool", ["CuPy's", "of graphs"])
def test_the_emulated_pool_is_cupys(pool, seed):
    """Whatever is asked of them. No two sizes are the same, of which either might take any."""
    rng = np.random.default_rng(seed)
    operations, left = [], []
    for i, units in enumerate(rng.choice(np.arange(1, 5000), 80, replace=False)):
        operations.append(("malloc", int(512 * units)))
        left.append(i)
        while left and rng.random() < 0.48:
            operations.append(("free", left.pop(int(rng.integers(len(left))))))
        if rng.random() < 0.1:
            given = ("limit", int(rng.integers(10, 40)) * 512 * 1000)
            operations.append(given if pool == "CuPy's" else ("bound", 0))
        if rng.random() < 0.1:
            operations.append(("room", int(rng.integers(10, 40)) * 512 * 1000))
    found = emulated(pool, operations)
    assert 0 < sum(full for full, _, _ in found["outcomes"]) < 70
    held = [total for _, total, _ in found["outcomes"]]
    assert (held == sorted(held)) == (pool == "of graphs"), "a pool of graphs gives nothing back"
    assert found == real(pool, operations)
