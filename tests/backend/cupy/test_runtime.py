"""The graph driver and the device runtime for CuPy, whole, without a GPU."""

from __future__ import annotations

import gc
import importlib
import sys
from typing import Any

import numpy as np
import pytest

from npformer import Adam, TrainStep, Transformer, TransformerConfig
from npformer.backend import Backend, get_backend
from npformer.backend.cupy import assembled, cupy_backend
from npformer.backend.cupy import device_runtime as module
from npformer.backend.cupy.graph_driver import CupyDriver
from npformer.functional import arrays
from tests.backend.cuda.host_runtime import HostRuntime, compiler_problem

pytestmark = pytest.mark.skipif(compiler_problem() is not None, reason=str(compiler_problem()))
CONFIG = TransformerConfig(9, 9, d_model=8, num_heads=2, num_encoder_layers=1, num_decoder_layers=1, d_ff=12)


@pytest.fixture
def emulation():
    from tests.backend.cupy import emulated

    return emulated


@pytest.fixture
def cupy(emulation, monkeypatch):
    found = emulation.emulated()
    monkeypatch.setitem(sys.modules, "cupy", found)
    monkeypatch.setattr(module, "loaded_library", lambda: found.cublas)
    names = importlib.import_module(emulation.recording.DeviceArray.__module__).NAMESPACE
    monkeypatch.setitem(arrays._namespace_by_type, emulation.recording.DeviceArray, names)  # else CuPy is looked for
    memory = property(lambda x: found.classes.MemoryPointer(x.bare))
    monkeypatch.setattr(emulation.recording.DeviceArray, "data", memory, raising=False)
    return found


def trained(backend: Backend, steps: int = 7, lengths: tuple[int, ...] = (5,)) -> list[Any]:
    """Losses, which nobody reads before the end, and the parameters."""
    rng = np.random.default_rng(3)
    model = Transformer(CONFIG, backend=backend, seed=2)
    step = TrainStep(model, Adam(model.arena, lr=0.01), seed=5, clip_norm=0.7)
    losses = [step(*rng.integers(1, 9, (3, 4, lengths[i % len(lengths)]))) for i in range(steps)]
    return [*(float(loss) for loss in losses), backend.host(model.arena.values)]


@pytest.mark.parametrize("hasty", [False, True], ids=["lazy streams", "hasty ones"])
@pytest.mark.parametrize("lengths", [(5,), (5, 3)], ids=["one shape", "two by turns"])
def test_a_training_waits_for_all_that_it_needs(cupy, emulation, lengths, hasty):
    """More steps than inputs are kept for, on two streams, of which the host waits for neither."""
    cupy.machine.hasty = hasty
    found = trained(cupy_backend("float32", "cuda"), 12, lengths)
    recording = emulation.recording
    machine = recording.Machine(emulation.guarded.guarded)
    plain = Backend("recording", get_backend("numpy").ops, machine, "float32")
    runtime = recording.Runtime(machine, HostRuntime())
    expected = trained(assembled(plain, runtime, machine, recording.DeviceArray), 12, lengths)
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize(("waits", "hasty"), [("graphs", False), ("caller", True)])
def test_a_stream_that_does_not_wait_is_seen(cupy, monkeypatch, waits, hasty):
    cupy.machine.hasty = hasty
    expected = trained(cupy_backend("float32", "cuda"))
    real = cupy.classes.Stream.wait_event

    def wait_event(self, event):
        if self.is_default == (waits == "caller"):
            real(self, event)

    monkeypatch.setattr(cupy.classes.Stream, "wait_event", wait_event)
    found = trained(cupy_backend("float32", "cuda"))
    assert not all(np.array_equal(x, y) for x, y in zip(found, expected, strict=True))


def test_inputs_are_not_overwritten_before_they_are_copied(cupy, monkeypatch):
    """The event that says when a place is free again is waited for: without, twelve steps would share four places."""
    expected = trained(cupy_backend("float32", "cuda"), 12)
    monkeypatch.setattr(cupy.classes.Event, "synchronize", lambda self: None)
    found = trained(cupy_backend("float32", "cuda"), 12)
    assert not all(np.array_equal(x, y) for x, y in zip(found, expected, strict=True))


def test_a_dropped_training_frees_its_memory(cupy):
    """Its pool's memory, after its graph; its handle of cuBLAS. Meanwhile nobody uses it (see free_all_blocks)."""
    trained(cupy_backend("float32", "cuda"))
    gc.collect()
    default, *private = cupy.machine.pools
    assert len(private) == 1
    assert private[0].total_bytes() == 0 < default.total_bytes()
    assert [name for name, _ in cupy.cublas.library.calls].count("cublasDestroy_v2") == 1


def test_nothing_is_collected_while_a_stream_records(cupy):
    """A forgotten step's finalizer waits for the device, which ends a capture."""
    driver = CupyDriver("a GPU")
    seen: list[bool] = []
    with driver.using(driver.pool()):
        driver.record(lambda: seen.append(gc.isenabled()))
        with pytest.raises(ZeroDivisionError):
            driver.record(lambda: 1 / 0)
    assert (seen, gc.isenabled()) == ([False], True)
