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
K = 1024


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


#: What is asked of a pool of graphs, which gives nothing back; its bytes; those used; what finds memory full.
SCRIPTS = {
    "at its bound": (
        [("malloc", 2 * K), ("free", 0), ("bound", 0), ("malloc", 3 * K), ("malloc", 2 * K), ("malloc", K // 2)],
        [2 * K, 2 * K, 2 * K, 2 * K, 2 * K, 2 * K + K // 2], [2 * K, 0, 0, 0, 2 * K, 2 * K + K // 2], [3],
    ),
    "where the device is full": (
        [("malloc", K), ("free", 0), ("room", 2 * K), ("malloc", 2 * K), ("malloc", K)], [K] * 5, [K, 0, 0, 0, K], [3],
    ),
}  # fmt: skip


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("kind", [emulated, real])
def test_a_pool_of_graphs_gives_nothing_back(kind, script):
    operations, total, used, full = SCRIPTS[script]
    expected = [[i in full, total[i], used[i]] for i in range(len(operations))]
    assert kind("of graphs", operations)["outcomes"] == expected


@pytest.mark.parametrize("seed", range(3))
def test_the_emulated_pool_is_cupys(seed):
    """Whatever is asked of them. No two sizes are the same, of which either might take any."""
    rng = np.random.default_rng(seed)
    operations, left = [], []
    for i, units in enumerate(rng.choice(np.arange(1, 5000), 80, replace=False)):
        operations.append(("malloc", int(512 * units)))
        left.append(i)
        while left and rng.random() < 0.48:
            operations.append(("free", left.pop(int(rng.integers(len(left))))))
        if rng.random() < 0.1:
            operations.append(("limit", int(rng.integers(10, 40)) * 512 * 1000))
        if rng.random() < 0.1:
            operations.append(("room", int(rng.integers(10, 40)) * 512 * 1000))
    found = emulated("CuPy's", operations)
    assert 0 < sum(full for full, _, _ in found["outcomes"]) < 40
    assert found == real("CuPy's", operations)
