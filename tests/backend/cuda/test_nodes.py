"""The number of nodes in a training step's graph: each takes the GPU a microsecond or two, however small."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

import npformer as npf
from npformer.backend import Backend, get_backend
from npformer.backend.cupy import assembled
from npformer.models.presets import PRESETS, Preset
from tests.backend.cuda import asking, recording

#: Size of model: nodes of the graph of a step with dropout, products in TF32; matrix products among them.
NODES = {"tiny": (200, 69), "small": (219, 69), "mid": (423, 156), "base": (819, 309)}
#: Sizes with fewer sequences, and tokens to choose from, that are as many nodes: it is rows beyond 1024 that count.
SMALLER = {"mid": {"batch": 20, "vocab_size": 99}, "base": {"batch": 12, "vocab_size": 99}}


@pytest.fixture
def counted():
    """counted(preset): (nodes, products) of a recorded step, none of which is computed."""

    class Machine(recording.Machine):  # type: ignore[misc, name-defined]
        """Memory that nobody fills, and launches that do nothing."""

        def empty(self, shape: tuple[int, ...], dtype):
            kind = np.dtype(dtype)
            memory = self._in_use.take(math.prod(shape) * kind.itemsize)
            buffer = memory.buffer[: math.prod(shape) * kind.itemsize]
            return recording.DeviceArray(self, memory, buffer.view(kind).reshape(shape))

        def launch(self, graph):
            self.graph = graph

    class Runtime(asking.AskingRuntime):  # type: ignore[misc, name-defined]
        """Each launch and each product is a node."""

        precision = "tf32"

        def __init__(self, machine):
            super().__init__()
            self.machine, self.blas, self.empty = machine, self, machine.empty
            self.products = 0

        def contiguous(self, x):
            return x if x.flags.c_contiguous else x.copy()

        def address(self, x) -> int:
            return int(x.bare.ctypes.data)

        def launch(self, kernel: str, dtype, blocks: int, threads: int, *arguments):
            if blocks:
                self.machine.do(lambda: None)

        def gemm(self, *inputs, **options):
            self.products += self.machine.recorded is not None
            self.machine.do(lambda: None)

    def count(preset: Preset) -> tuple[int, int]:
        machine = Machine(lambda shape, dtype: np.empty(shape, dtype))
        runtime = Runtime(machine)
        plain = Backend("cupy", get_backend("numpy").ops, machine, "float32", precision=runtime.precision)
        backend = assembled(plain, runtime, machine, recording.DeviceArray)
        model = npf.Transformer(preset.config(0.1), backend=backend, seed=0)
        step = npf.TrainStep(model, npf.Adam(model.arena, lr=1e-4), seed=0)
        for _ in range(2):
            step(*preset.example_batch())
        assert step.runner.compute.refusal is None
        return len(machine.graph), runtime.products

    return count


@pytest.mark.parametrize("size", NODES)
def test_a_step_is_no_more_nodes_than_it_was(size, counted):
    """Where it is fewer, write that down: they should not come back."""
    assert counted(dataclasses.replace(PRESETS[size], **SMALLER.get(size, {}))) == NODES[size]


def test_a_kernel_more_is_seen(counted, monkeypatch):
    monkeypatch.setattr("npformer.backend.cuda.sums.ONE_PASS", 700)  # tiny's sums of 768 rows take two kernels, then
    nodes, products = counted(PRESETS["tiny"])
    assert (nodes - NODES["tiny"][0], products) == (19, NODES["tiny"][1])
