"""A GPU's peak rates as npformer measures them, and the bytes that a training step has to move."""

import npformer as npf
from benchmarks.own.model import about, backend
from benchmarks.tasks import Contender
from npformer.backend.flops import adam_work
from npformer.backend.roofline import measure_roofline
from npformer.backend.timing import Clock, timed_backend
from npformer.models.presets import PRESETS

BYTES = 4  # of a float32


def ceilings(device, kernels, precisions):
    """Tasks: "ceilings" returns the measured rates, "bytes SIZE" the bytes that a step of that size has to move."""
    chosen = {name: backend(device, kernels, name) for name in precisions}
    first = chosen[precisions[0]]

    def measure():
        found = {name: measure_roofline(each) for name, each in chosen.items()}
        products = {name: each.flops for name, each in found.items()}
        return {"products": products, "memory": max(each.bytes for each in found.values())}

    tasks = {"ceilings": lambda: measure}
    for size in PRESETS:
        tasks[f"bytes {size}"] = lambda size=size: lambda: step_bytes(PRESETS[size], first)
    return Contender(about(first), tasks, synchronize=first.device.synchronize)


def step_bytes(preset, chosen):
    """The least bytes that the operations of one training step and Adam move; see npformer.backend.flops."""
    clock = Clock(chosen.device)
    model = npf.Transformer(preset.config(0.1), backend=timed_backend(chosen, clock), seed=0)
    step, batch = npf.TrainStep(model, npf.Adam(model.arena)), preset.example_batch()
    clock.start(counting=True)
    step(*batch)
    numbers = sum(tally.work.numbers for tally in clock.stop().values())
    return BYTES * (numbers + adam_work(model.arena.size).numbers)
