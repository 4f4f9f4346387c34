"""What a GPU run asks of npformer once: right gradients, the reverse task trained in time, real batches, ceilings.

Gradients are held against NumPy's in float64, tensor by tensor, with float32's error budget.

Batches of the real tasks have many shapes: how many steps are replays, and how long do they take beside steps of one
shape? The reverse task is trained as ``npformer train reverse`` does it. Ceilings are the GPU's peak rates as npformer
measures them, and the bytes that a training step has to move.
"""

import tempfile
import time
from dataclasses import replace
from pathlib import Path

import npformer as npf
from benchmarks.flops import adam_work, work_of
from benchmarks.own.model import about, backend
from benchmarks.own.on_gpu import noted_launches
from benchmarks.roofline import measure_roofline
from benchmarks.tasks import Contender
from npformer.backend import Ops
from npformer.check import against_float64
from npformer.models.presets import PRESETS, Preset
from npformer.run import RunDirectory
from npformer.training import Trainer
from npformer.training.assemble import assemble, write_run

BYTES = 4  # of a float32
CHECKED = Preset(vocab_size=40, d_model=64, num_heads=4, num_layers=2, d_ff=256, length=12, batch=8)
#: Real tasks whose batches have many shapes.
REAL = ("dates", "numbers", "scan", "language")
#: Steps of a first training, in which CuPy compiles every function at its first call: argmax and others.
COMPILING = 3


def gradients(device, kernels):
    """Task "gradients": {"rows": [{"tensor", "shape", "error", "note", "holds"}], "wrong": how many fail}."""
    chosen = backend(device, kernels)
    src, tgt_in, _ = CHECKED.example_batch()
    src[:2, 8:] = 0  # padding
    config = CHECKED.config(0.1)

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


def batches(device, precision, kernels="auto", steps=500):
    """Task "batches": task -> {"replayed", "steps", "seconds" of a step, "one_shape": those of steps of one shape}.

    The one shape is the batch with the median number of tokens. Batches are made before the clock runs; the first
    steps, which compile, do not count, but recording does.
    """
    run = {"device": device, "kernels": kernels, "precision": precision}

    def measure(name):
        assembled = [
            assemble({"run": {"task": name, **run}, "data": {}, "model": {}, "training": {}}) for _ in range(2)
        ]
        size = assembled[0].options.training.batch_size
        given = [assembled[0].task.batch(i + 1, size) for i in range(steps)]
        median = sorted(given, key=lambda batch: sum(ids.size for ids in batch))[steps // 2]
        found = {"steps": steps}
        for each, batches, what in zip(assembled, (given, [median] * steps), ("seconds", "one_shape"), strict=True):
            step = each.step
            for _ in range(COMPILING):
                step(*median)
            launched = noted_launches(step.runner.compute._driver)
            step.model.backend.device.synchronize()
            start, before = time.perf_counter(), step.runner.compute._records
            for batch in batches:
                step(*batch)
            step.model.backend.device.synchronize()
            found[what] = (time.perf_counter() - start) / steps
            found.setdefault("replayed", len(launched) - (step.runner.compute._records - before))
        return found

    tasks = {"batches": lambda: lambda: {name: measure(name) for name in REAL}}
    return Contender({"backend": "npformer"}, tasks)


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


def ceilings(device, kernels, precisions):
    """Tasks: "ceilings" returns the measured rates, "bytes SIZE" the bytes that a step of that size has to move."""
    chosen = {name: backend(device, kernels, name) for name in precisions}
    first = chosen[precisions[0]]

    def measure():
        roofline = {name: measure_roofline(each) for name, each in chosen.items()}
        products = {name: each.flops for name, each in roofline.items()}
        return {"products": products, "memory": max(each.bytes for each in roofline.values())}

    tasks = {"ceilings": lambda: measure}
    for size in PRESETS:
        tasks[f"bytes {size}"] = lambda size=size: lambda: step_bytes(PRESETS[size], first)
    return Contender(about(first), tasks, synchronize=first.device.synchronize)


def step_bytes(preset, chosen):
    """The least bytes that the operations of one training step and Adam move; see ``benchmarks.flops``."""
    engine = chosen.engine and chosen.engine.eager()  # a replay calls no operations
    done = []
    model = npf.Transformer(preset.config(0.1), backend=replace(chosen, ops=counted(chosen.ops, done), engine=engine))
    npf.TrainStep(model, npf.Adam(model.arena))(*preset.example_batch())
    return BYTES * (sum(work.numbers for work in done) + adam_work(model.arena.size).numbers)


def counted(ops, done):
    """The operations, whose work is added to done: that of a forward, and of the backward that follows it."""

    def watched(name, pair):
        def forward(*inputs, **options):
            y, cache = pair.forward(*inputs, **options)
            done.extend(work_of(name, y, inputs))
            return y, cache

        return pair._replace(forward=forward)

    return Ops(**{name: watched(name, pair) for name, pair in vars(ops).items()})
