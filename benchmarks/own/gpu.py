"""What a GPU run asks of npformer once: right gradients, the reverse task trained in time, real batches, ceilings.

Gradients are held against NumPy's in float64, tensor by tensor, with float32's error budget.

Batches of the real tasks have many shapes: how many steps are replays, and how long do they take beside steps of one
shape? The reverse task is trained as ``npformer train reverse`` does it. Ceilings are the GPU's peak rates of products,
as npformer measures them: no step takes less time than its products at that rate.
"""

import ctypes
import tempfile
import time
from pathlib import Path

import numpy as np

import npformer as npf
from benchmarks.harness import Contender
from benchmarks.own.model import about, backend
from npformer.check import against_float64
from npformer.models.presets import Preset
from npformer.run import RunDirectory
from npformer.run.assemble import assemble, write_run
from npformer.run.trainer import Trainer

KERNEL_NODE = 0  # CU_GRAPH_NODE_TYPE_KERNEL; others are copies, fills and the like
CHECKED = Preset(vocab_size=40, d_model=64, num_heads=4, num_layers=2, d_ff=256, length=12, batch=8)
#: Real tasks whose batches have many shapes.
REAL = ("dates", "numbers", "scan", "language")
#: Steps of a first training, in which CuPy compiles every function at its first call: argmax and others.
COMPILING = 3
#: Square matrices of this size reach the peak rate of products; the fastest of so many rounds is told.
LARGE, ROUNDS = 8192, 20


def memory_watched(chosen):
    """Count the bytes that CuPy's pools request from the driver from now on; the pools keep memory. {} on a CPU."""
    if chosen.name != "cupy":
        return dict
    from cupy.cuda import MemoryHook

    class Asked(MemoryHook):
        name = "asked"
        total = 0

        def alloc_postprocess(self, *, mem_size, **_):
            self.total += mem_size

    hook = Asked()
    hook.__enter__()  # to the end of the process
    return lambda: {"device_bytes": hook.total}


def launched_kernels(update):
    """The number of kernels in the graph of a training step; {} if there is no graph."""
    compute = update.runner.compute if update.runner is not None else None
    graphs = [shape.graph for shape in getattr(compute, "_shapes", {}).values() if shape.graph is not None]
    return {"kernels": count_kernels(driver(), graphs[-1])} if graphs else {}


def noted_launches(driver):
    """A list to which every launch of a graph adds that graph; driver is ``capture.Driver``."""
    graphs, launch = [], driver.launch
    driver.launch = lambda graph: (graphs.append(graph), launch(graph))
    return graphs


def of_a_token(graphs, tokens):
    """Kernels and launches for each token, given the graphs that were launched for so many; {} if there are none."""
    return {"kernels": count_kernels(driver(), graphs[-1]), "launches": len(graphs) / tokens} if graphs else {}


def driver():
    """The CUDA driver's library."""
    return ctypes.CDLL("libcuda.so.1")


def count_kernels(driver, graph):
    """The number of kernel nodes in CuPy's graph, from the driver's library."""
    count, handle, kind = ctypes.c_size_t(), ctypes.c_void_p(graph.graph), ctypes.c_int()

    def asked(call, *words):
        if code := call(*words):
            raise RuntimeError(f"CUDA driver: expected success (0) when asked for a graph's nodes, got error {code}")

    asked(driver.cuGraphGetNodes, handle, None, ctypes.byref(count))
    nodes = (ctypes.c_void_p * count.value)()
    asked(driver.cuGraphGetNodes, handle, nodes, ctypes.byref(count))
    kernels = 0
    for node in nodes:
        asked(driver.cuGraphNodeGetType, ctypes.c_void_p(node), ctypes.byref(kind))
        kernels += kind.value == KERNEL_NODE
    return kernels


def gradients(device, kernels):
    """Task "gradients": {"rows": [{"tensor", "shape", "error", "note", "holds"}], "wrong": how many fail}."""
    chosen, config = backend(device, kernels), CHECKED.config(0.1)
    src, tgt_in, _ = CHECKED.example_batch()
    src[:2, 8:] = 0  # padding

    def compare():
        errors = against_float64(
            lambda on: npf.Transformer(config, backend=on, seed=0), (src, tgt_in), {"key": npf.RandomKey(0, 1)}, chosen
        )
        rows = [
            {"tensor": row.tensor, "shape": list(row.shape), "error": row.scaled_error, "note": row.note,
             "holds": row.ok}
            for row in errors.rows
        ]  # fmt: skip
        return {"rows": rows, "wrong": sum(not row["holds"] for row in rows)}

    return Contender(about(chosen), {"gradients": lambda: compare})


def reverse(device, precision, kernels="auto", steps=None):
    """Task "reverse": {"seconds", "exact_match", "sequences"}.

    seconds cover the whole training: steps, evaluations, checkpoints and graph capture. They exclude imports, files
    written before the first step, and compilation, for which a training of COMPILING steps and its evaluation comes
    first. steps: a smaller number for a quick look.
    """
    run = {"task": "reverse", "device": device, "kernels": kernels, "precision": precision}

    def assembled(steps):
        training = {} if steps is None else {"steps": steps, "warmup_steps": 1}
        return assemble({"run": run, "data": {}, "model": {}, "training": training})

    trained(assembled(COMPILING))
    whole = assembled(steps)
    return Contender(about(whole.step.model.backend), {"reverse": lambda: lambda: trained(whole)})


def trained(assembled):
    """Run one training. Returns the task's value."""
    with tempfile.TemporaryDirectory() as folder:
        place = RunDirectory.create(Path(folder) / "run", Path(folder), "reverse")
        write_run(place, assembled)
        trainer = Trainer(place, assembled.task, assembled.step, assembled.options.training, assembled.identity)
        start = time.perf_counter()
        trainer.train()
        seconds = time.perf_counter() - start
        evaluation = trainer.last_evaluation
    assert evaluation is not None  # the last step is always evaluated
    return {"seconds": seconds, "exact_match": evaluation.exact_match, "sequences": evaluation.count}


def batches(device, precision, kernels="auto", steps=500):
    """Task "batches": task -> {"replayed", "steps", "seconds" of a step, "one_shape": those of steps of one shape}.

    The one shape is the batch with the median number of tokens. Batches are made before the clock runs; the first
    steps, which compile, do not count, but recording does.
    """
    run = {"device": device, "kernels": kernels, "precision": precision}

    def timed(step, given, median):
        """(seconds of a step, how many were replays)."""
        for _ in range(COMPILING):
            step(*median)
        compute, synchronize = step.runner.compute, step.model.backend.device.synchronize
        launches, before = noted_launches(compute._driver), compute._records
        synchronize()
        start = time.perf_counter()
        for batch in given:
            step(*batch)
        synchronize()
        return (time.perf_counter() - start) / steps, len(launches) - (compute._records - before)

    def measure(name):
        many, one = (
            assemble({"run": {"task": name, **run}, "data": {}, "model": {}, "training": {}}) for _ in range(2)
        )
        given = [many.task.batch(i + 1, many.options.training.batch_size) for i in range(steps)]
        median = sorted(given, key=lambda batch: sum(ids.size for ids in batch))[steps // 2]
        seconds, replayed = timed(many.step, given, median)
        one_shape, _ = timed(one.step, [median] * steps, median)
        return {"steps": steps, "seconds": seconds, "replayed": replayed, "one_shape": one_shape}

    return Contender({"backend": "npformer"}, {"batches": lambda: lambda: {name: measure(name) for name in REAL}})


def ceilings(device, kernels, precisions):
    """Tasks: "ceilings" returns the measured rate of products in each precision, in flops a second."""
    chosen = {name: backend(device, kernels, name) for name in precisions}

    def measure():
        return {"products": {name: rate_of_products(each) for name, each in chosen.items()}}

    first = chosen[precisions[0]]
    return Contender(about(first), {"ceilings": lambda: measure}, synchronize=first.device.synchronize)


def rate_of_products(chosen):
    """Flops a second of a large linear map, since CuPy's matmul has no TF32. The bias takes some hundredths."""
    rng, seconds = np.random.default_rng(0), []
    a, b = (chosen.array(rng.random((LARGE, LARGE), dtype=np.float32)) for _ in range(2))
    bias = chosen.zeros((LARGE,))
    for _ in range(1 + ROUNDS):  # the first may set things up
        start = time.perf_counter()
        chosen.ops.linear.forward(a, b, bias)
        chosen.device.synchronize()
        seconds.append(time.perf_counter() - start)
    return 2.0 * LARGE**3 / min(seconds[1:])
