"""npformer's GPU contenders, run on an emulated device that records graphs."""

import pytest

import npformer as npf
from benchmarks.own import decode, once, ops, train
from benchmarks.own import on_gpu as own_on_gpu
from benchmarks.roofline import LARGE, STREAMED
from benchmarks.tasks import PREPARED, TOGETHER
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

    def backend(device, kernels, precision="float32"):
        assert (device, kernels) == ("cupy", "cuda")
        return cupy_backend("float32", kernels, precision)

    machine = emulated.installed(monkeypatch).machine
    for module in (decode, once, ops, train):
        monkeypatch.setattr(module, "backend", backend)
    monkeypatch.setitem(PRESETS, "tiny", SMALL)
    monkeypatch.setattr(train, "memory_watched", lambda chosen: lambda: {"device_bytes": 5})
    monkeypatch.setattr(own_on_gpu.ctypes, "CDLL", lambda name: name)
    return machine


def test_steps_alone_together_and_unrecorded_are_the_same(machine, monkeypatch):
    """A step is recorded exactly once: at its second call, not at the first or later."""
    monkeypatch.setattr(own_on_gpu, "count_kernels", lambda driver, graph: 1700)
    together, losses = TOGETHER["cupy"], {}
    recorded = {
        "one": ((PREPARED + 1) * together - 1 + together - 1, 2, {"kernels": 1700}),  # a burst of MINUTE before
        "none": (0, 0, {}),
    }
    for launch, expected in recorded.items():
        launches, records = machine.launches, machine.records
        made = train.train("tiny", 0.1, "cupy", "cuda", launch=launch)
        task = made.task("step")
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
    monkeypatch.setattr(once, "REAL", ("dates",))
    (found,) = once.batches("cupy", "tf32", steps=40).task("batches")().values()
    assert found["steps"] == 40
    assert 10 < found["replayed"] < 40
    assert min(found["seconds"], found["one_shape"]) > 0


def test_ceilings_and_bytes(machine, monkeypatch):
    monkeypatch.setitem(LARGE, "cupy", 8)
    monkeypatch.setitem(STREAMED, "cupy", 1 << 12)
    monkeypatch.setattr("benchmarks.roofline.ENOUGH", 0.0)
    made = once.ceilings("cupy", "cuda", ["float32", "tf32"])
    rates = made.task("ceilings")()
    assert set(rates["products"]) == {"float32", "tf32"}
    assert min(*rates["products"].values(), rates["memory"]) > 0
    on_host = npf.get_backend("numpy", kernels="plain", threads=1)
    assert made.task("bytes tiny")() == once.step_bytes(SMALL, on_host)


def test_decoding(machine, monkeypatch):
    """A token is one launch; only the very first one is not recorded."""
    monkeypatch.setattr(own_on_gpu, "count_kernels", lambda driver, graph: len(graph.nodes))
    made = decode.decode("tiny", 4, [2], "cupy", "cuda")
    assert made.on_device() == {}
    for launches in (3, 4):
        output = made.task("batch 2")()
        assert [len(row) for row in output] == [4, 4]
        assert made.on_device()["launches"] == launches / 4
        assert made.on_device()["kernels"] > 10


@pytest.mark.parametrize("name", ops.NAMES)
def test_operations(name, machine):
    made = ops.ops("tiny", "cupy", "cuda", 1, "float32")
    for way in ("forward", "backward"):
        assert made.task(f"{name} {way}")() == [None] * TOGETHER["cupy"]


def test_gradients(machine, monkeypatch):
    monkeypatch.setattr(once, "CHECKED", SMALL)
    errors = once.gradients("cupy", "cuda").task("gradients")()
    assert errors["wrong"] == 0
    assert len(errors["rows"]) > 20
