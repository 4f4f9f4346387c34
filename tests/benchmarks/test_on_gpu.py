"""The GPU side of the benchmarks, as far as it can be tested without a GPU."""

import ctypes
import inspect
import os
from contextlib import nullcontext, suppress
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

import npformer as npf
from benchmarks import contender, decode, on_gpu, ops, options, report, tasks, train_step
from benchmarks.contender import Server
from benchmarks.flops import Work
from benchmarks.gpu.parts import Setting
from benchmarks.own import once
from benchmarks.own.on_gpu import count_kernels, launched, memory_watched
from benchmarks.own.once import COMPILING, gradients, reverse, step_bytes
from benchmarks.products import step_flop
from benchmarks.tasks import Contender, repeated
from benchmarks.turns import Budget, Child, Entry, contenders
from npformer.models.presets import PRESETS
from npformer.training import Trainer
from npformer.training.bench import Budget as StepBudget
from npformer.training.bench import profile_step
from tests.benchmarks.rows import training
from tests.benchmarks.sleepers import FakeTime

CEILINGS = {"products": {"tf32": 4e14, "float32": 5e13}, "memory": 4e12, "bytes": {"tiny": 8e9, "base": 1e9}}


def asked(torch=True, precisions=("tf32",)):
    return Setting(60.0, Path(), {}, torch).options(["tiny"], precisions, Budget())


def test_contenders_of_a_training_step():
    entries = train_step.entries(asked(), "tiny", 0.1, "weights", "tf32")
    assert [entry.name for entry in entries] == [
        "npformer-cuda", "npformer-cuda-eager",
        "torch-textbook", "torch-fast", "torch-graph", "torch-compile", "torch-reduce-overhead",
    ]  # fmt: skip
    assert {(entry.options["precision"], entry.options["dropout"], entry.options["device"]) for entry in entries} == {
        ("tf32", 0.1, "cupy")
    }
    optional = ["torch-graph", "torch-compile", "torch-reduce-overhead"]
    assert [entry.name for entry in entries if entry.optional] == optional
    assert len(train_step.entries(asked(torch=False), "tiny", 0.1, "", "tf32")) == 2


@pytest.mark.parametrize("peer", [False, True])
def test_each_named_factory_exists_and_accepts_its_options(peer, monkeypatch):
    if peer:
        pytest.importorskip("torch", reason="PyTorch is not installed")
    what = {"size": "tiny", "tokens": 1, "batches": [1], "precision": "tf32"}
    started = [
        *train_step.entries(asked(), "tiny", 0.1, "weights", "tf32"), *decode.entries(asked(), what, "weights"),
        *ops.entries(asked(), "tiny", 1, "tf32"),
    ]  # fmt: skip
    monkeypatch.setattr(on_gpu, "contenders", lambda entries, *args: started.extend(entries) or nullcontext([]))
    with suppress(IndexError):  # nobody has measured
        on_gpu.measure_roofline(asked(), {})
    modules = set()
    for entry in started:
        module, _, name = entry.factory.partition(":")
        if module.startswith("benchmarks.peers") == peer:
            modules.add(module)
            assert set(entry.options) <= set(inspect.signature(getattr(import_module(module), name)).parameters)
    assert len(modules) == 4


@pytest.mark.parametrize(("size", "bound"), [("tiny", 8e9 / 4e12), ("base", step_flop(PRESETS["base"]) / 4e14)])
def test_rates_beside_the_ceilings(size, bound):
    child = object.__new__(Child)
    child.facts = {"ready_seconds": 2.0}
    rates = on_gpu.with_rates({"median": 0.01}, child, size, "tf32", CEILINGS)
    assert rates["flop_per_second"] == pytest.approx(step_flop(PRESETS[size]) / 0.01)
    assert rates["bytes_per_second"] == pytest.approx(CEILINGS["bytes"][size] / 0.01)
    assert rates["of_bound"] == pytest.approx(bound / 0.01)
    assert (rates["ready_seconds"], rates["kernels"], rates["device_bytes"]) == (2.0, None, None)


def test_the_table_on_a_gpu():
    result = training("tiny", "tf32") | {"left_out": ["torch-compile"]}
    result["contenders"][0] |= {"kernels": None, "device_bytes": None, "ready_seconds": None, "times_as_fast": None}
    lines = train_step.describe(result).splitlines()
    assert max(map(len, lines)) <= report.WIDTH
    assert lines[0].startswith("tiny, tf32, dropout 0.1: V 16")
    assert lines[2].split() == ["npformer-cuda", "1.00", "1.00", "–", "1.00", "2,000", "50", "%", "–", "–", "–"]
    assert lines[3].split()[3:] == ["5.00", "1.00", "2,000", "50", "%", "170", "300", "1.50"]
    assert "left out for the reasons above: torch-compile" in lines
    assert max(map(len, on_gpu.LEGEND)) <= report.WIDTH
    assert "tf32 400, float32 50 TFLOP/s; memory 4,000 GB/s" in on_gpu.roofline_line(CEILINGS).replace("\n    ", " ")


def test_the_ceiling_is_the_best_of_both_sides():
    seen = [
        {"products": {"tf32": 3.0, "float32": 1.0}, "memory": 9.0},
        {"products": {"tf32": 2.0, "float32": 4.0}, "memory": 8.0},
    ]
    assert on_gpu.best_of(seen) == {"products": {"tf32": 3.0, "float32": 4.0}, "memory": 9.0}


@pytest.mark.parametrize(("precision", "apart", "holds"), [
    ("float32", 2e-5, True), ("float32", 4e-5, False), ("tf32", 2.9e-3, True), ("tf32", 3.1e-3, False),
])  # fmt: skip
def test_the_tolerance_between_losses(precision, apart, holds):
    from tests.benchmarks.test_reports import Measured, child

    children = [child("npformer-cuda", 3.0), child("torch-fast", 3.0 + apart)]
    measured = {each.name: Measured([[1.0]], [3.0], [(0.0, 0.0)]) for each in children}
    assert train_step.same(children, measured, 0.1, on_gpu.SAME[precision])["holds"] is holds


def test_steps_made_together_share_their_time(monkeypatch):
    """Ten steps are queued before the host waits; the answer has a time and a value for each."""
    waits = []
    calls = []
    clock = FakeTime()
    monkeypatch.setattr(contender, "time", clock)

    def burst():
        calls.append(1)
        clock.now += 0.05
        return list(range(10))

    made = Contender({}, {"step": lambda: burst}, synchronize=lambda: waits.append(1), together=10)
    answer = Server(made, 0).answer({"do": "run", "task": "step", "steps": 11})
    assert (len(calls), len(waits)) == (2, 2)
    assert answer["values"] == [*range(10), *range(10)]
    assert len(answer["seconds"]) == 20
    assert answer["seconds"] == pytest.approx([0.005] * 20)


def test_a_task_is_repeated_before_the_host_waits():
    def task():
        return 3

    assert repeated(task, 4)() == [3, 3, 3, 3]
    assert repeated(task, 1) is task


def test_a_contenders_gpu_figures_are_in_its_row():
    made = Contender({}, {}, on_device=lambda: {"device_bytes": 5, "kernels": 7})
    assert Server(made, 0).answer({"do": "device"}) == {"device_bytes": 5, "kernels": 7}
    assert Server(Contender({}, {}), 0).answer({"do": "device"}) == {}


def test_an_optional_contender_that_cannot_start_is_left_out(capsys):
    good = Entry("good", "tests.benchmarks.sleepers:sleeper", {"seconds": 0.001})
    broken = Entry("broken", "no_such_module:nothing", optional=True)
    with contenders([broken, good], os.environ) as children:
        assert [child.name for child in children] == ["good"]
        assert children[0].run("nap", 1)["seconds"]
    stderr = capsys.readouterr().err
    assert stderr.startswith("benchmarks: left out: broken: expected an answer")
    assert "No module named 'no_such_module'" in stderr


def test_the_bytes_of_a_step_are_those_of_each_call_that_a_profile_counts(monkeypatch):
    alone = npf.get_backend("numpy", kernels="numpy", threads=1)
    rows = profile_step(PRESETS["tiny"], alone, 0.1, StepBudget(steps=1)).rows
    upward, downward = (sum(row.calls for row in rows if row.direction == way) for way in ("forward", "backward"))
    monkeypatch.setattr(once, "work_of", lambda name, y, inputs: (Work(0, 3), Work(0, 5)))
    monkeypatch.setattr(once, "adam_work", lambda size: Work(0, 1))
    assert step_bytes(PRESETS["tiny"], alone) == 4 * (3 * upward + 5 * downward + 1)


GRAPH = SimpleNamespace(graph=77)


class FakeDriver:
    """cuGraphGetNodes and cuGraphNodeGetType over a list of kinds."""

    def __init__(self, kinds, code=0):
        self.kinds, self.code = kinds, code

    def cuGraphGetNodes(self, graph, nodes, count):  # noqa: N802 - as the driver calls it
        assert graph.value == 77
        if nodes is None:
            count._obj.value = len(self.kinds)
        else:
            for i in range(count._obj.value):
                nodes[i] = 1000 + i
        return self.code

    def cuGraphNodeGetType(self, node, kind):  # noqa: N802
        assert isinstance(node, ctypes.c_void_p)
        kind._obj.value = self.kinds[node.value - 1000]
        return 0


def test_kernels_of_a_graph_are_counted():
    assert count_kernels(FakeDriver([0, 1, 0, 2, 0]), GRAPH) == 3  # 1 a copy, 2 a fill
    assert count_kernels(FakeDriver([]), GRAPH) == 0
    with pytest.raises(RuntimeError, match=r"expected success \(0\).*got error 3"):
        count_kernels(FakeDriver([0], code=3), GRAPH)


def test_without_a_graph_there_is_no_count_of_kernels(numpy32):
    model = npf.Transformer(PRESETS["tiny"].config(), backend=numpy32)
    assert launched(npf.TrainStep(model, npf.Adam(model.arena))) == {}
    assert memory_watched(numpy32)() == {}


def test_gradients_are_held_against_float64():
    errors = gradients("numpy", "numpy").task("gradients")()
    assert errors["wrong"] == 0
    assert {"generator.weight", "encoder.layers.1.self_attention.query.weight"} <= {
        error["tensor"] for error in errors["rows"]
    }
    assert all("% of the budget" in error["note"] and error["error"] > 0 for error in errors["rows"])


def checked(*arguments, kernels="auto,numpy,plain"):
    """The options of a command that is given these."""
    return options.checked(options.new_parser("x", "", "", "tiny", kernels, 1).parse_args(arguments))


ALONE = ("--against", "none")
ON_GPU = ("--device", "cupy")


def test_other_precisions_need_a_gpu():
    chosen = checked(*ALONE, kernels="plain")
    assert (chosen.precisions, chosen.kernels) == (["float32"], ["plain"])
    with pytest.raises(options.UsageError, match=r"--precision: expected float32 on a CPU, got 'tf32'; .* cupy"):
        checked(*ALONE, "--precision", "tf32")
    with pytest.raises(options.UsageError, match="--precision: expected names from float32, tf32, separated"):
        checked(*ALONE, "--precision", "half")


def test_with_a_gpu_all_precisions_and_kernels_are_the_default(monkeypatch):
    monkeypatch.setattr(options, "cupy_problem", lambda: None)
    chosen = checked(*ALONE, *ON_GPU)
    assert (chosen.precisions, chosen.kernels) == (["float32", "tf32"], ["cuda"])
    assert checked(*ALONE, *ON_GPU, "--kernels", "plain,auto").kernels == ["plain", "cuda"]
    with pytest.raises(options.UsageError, match=r"--kernels: expected names from cuda, plain, auto, .* got 'numpy'"):
        checked(*ALONE, *ON_GPU, "--kernels", "numpy")
    monkeypatch.setattr(options, "installed", lambda name: True)
    monkeypatch.setattr(options.importlib.metadata, "version", lambda name: "2.13.0+cpu")
    with pytest.raises(options.UsageError, match=r"expected a build of PyTorch for CUDA .*, got 2\.13\.0\+cpu"):
        checked(*ON_GPU)
    monkeypatch.setattr(options.importlib.metadata, "version", lambda name: "2.11.0")
    assert checked(*ON_GPU).torch


def test_decoding_is_judged_only_in_float32():
    assert decode.agrees({"agreement": 0.99, "precision": "float32"})
    assert not decode.agrees({"agreement": 0.5, "precision": "float32"})
    assert decode.agrees({"agreement": 0.5, "precision": "tf32"})


def test_several_steps_are_queued_on_a_gpu():
    assert tasks.TOGETHER["numpy"] == 1
    assert tasks.TOGETHER["cupy"] > 1


def test_reverse_is_trained_as_the_command_does_it_after_what_compiles(monkeypatch):
    """Functions are compiled at their first call: an evaluation, with its argmax, comes before the timed training."""
    evaluated = []
    real = Trainer.train

    def train(self):
        real(self)
        assert self.last_evaluation is not None
        evaluated.append(self.step.step_number)

    monkeypatch.setattr(Trainer, "train", train)
    task = reverse("numpy", "float32", "numpy", steps=2).task("reverse")
    assert evaluated == [COMPILING]
    result = task()
    assert evaluated == [COMPILING, 2]
    assert result["sequences"] == 1000
    assert 0 <= result["exact_match"] < 0.5
    assert result["seconds"] > 0
