"""npformer's GPU contenders, run on an emulated device that records graphs."""

import pytest

from benchmarks.harness import PREPARED, TOGETHER
from benchmarks.own import decode, gpu, train
from npformer.backend.select import cupy_backend
from npformer.models.presets import PRESETS, Preset
from npformer.run import trained
from tests.engine.cuda.host_runtime import compiler_problem
from tests.engine.cupy import emulated

SMALL = Preset(vocab_size=9, d_model=8, num_heads=2, num_layers=1, d_ff=12, length=5, batch=3)


@pytest.fixture
def machine(monkeypatch):
    """The emulated device behind CuPy; skips, visibly, without a compiler."""
    if (problem := compiler_problem()) is not None:
        pytest.skip(problem)

    def backend(device, kernels, precision="float32", threads=None):
        assert (device, kernels) == ("cupy", "cuda")
        return cupy_backend("float32", kernels, precision)

    machine = emulated.installed(monkeypatch).machine
    for module in (decode, gpu, train):
        monkeypatch.setattr(module, "backend", backend)
    monkeypatch.setitem(PRESETS, "tiny", SMALL)
    monkeypatch.setattr(train, "memory_watched", lambda chosen: lambda: {"device_bytes": 5})
    monkeypatch.setattr(gpu.ctypes, "CDLL", lambda name: name)
    return machine


def test_steps_alone_together_and_unrecorded_are_the_same(machine, monkeypatch):
    """A step is recorded exactly once: at its second call, not at the first or later."""
    monkeypatch.setattr(gpu, "count_kernels", lambda driver, graph: 1700)
    together, losses = TOGETHER["cupy"], {}
    recorded = {
        "one": ((PREPARED + 1) * together - 1 + together - 1, 2, {"kernels": 1700}),  # a burst of MINUTE before
        "none": (0, 0, {}),
    }
    for launch, expected in recorded.items():
        launches, records = machine.launches, machine.records
        made = train.train("tiny", 0.1, "cupy", "cuda", launch=launch)
        task = made.tasks["step"]()
        losses[launch] = [made.facts["loss"], *task()]
        assert made.facts["ready_seconds"] > 0
        assert (machine.launches - launches, machine.records - records) == expected[:2]
        assert made.on_device() == {"device_bytes": 5, **expected[2]}
    assert losses["one"] == losses["none"]
    assert len(set(losses["one"])) == 1 + together


def test_batches_of_many_shapes(machine, monkeypatch):
    """At real sizes, so nothing is computed."""
    emulated.uncomputed(monkeypatch)
    monkeypatch.setattr(trained, "get_backend", lambda name, dtype, **options: cupy_backend(dtype, **options))
    monkeypatch.setattr(gpu, "REAL", ("dates",))
    (found,) = gpu.batches("cupy", "tf32", steps=40).tasks["batches"]()().values()
    assert found["steps"] == 40
    assert 10 < found["replayed"] < 40
    assert min(found["seconds"], found["one_shape"]) > 0


def test_ceilings(machine, monkeypatch):
    monkeypatch.setattr(gpu, "LARGE", 8)
    monkeypatch.setattr(gpu, "ROUNDS", 1)
    made = gpu.ceilings("cupy", "cuda", ["float32", "tf32"])
    rates = made.tasks["ceilings"]()()
    assert set(rates["products"]) == {"float32", "tf32"}
    assert min(rates["products"].values()) > 0


def test_decoding(machine, monkeypatch):
    """A token is one launch; only the very first one is not recorded."""
    monkeypatch.setattr(gpu, "count_kernels", lambda driver, graph: len(graph.nodes))
    made = decode.decode("tiny", 4, [2], "cupy", "cuda")
    assert made.on_device() == {}
    for launches in (3, 4):
        output = made.tasks["batch 2"]()()
        assert [len(row) for row in output] == [4, 4]
        assert made.on_device()["launches"] == launches / 4
        assert made.on_device()["kernels"] > 10
