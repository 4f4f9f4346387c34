"""npformer's training step: forward, loss, backward, Adam, and the loss read back.

On a GPU several steps are queued before the host waits, and their losses are read together; the batch comes
from the host each time, as in training.
"""

import time
from dataclasses import replace

import npformer as npf
from benchmarks.own.model import about, backend, training_model
from benchmarks.own.on_gpu import launched, memory_watched
from benchmarks.tasks import PREPARED, TOGETHER, Contender
from npformer.functional.arrays import namespace
from npformer.models.presets import PRESETS, Preset

MINUTE = Preset(vocab_size=16, d_model=16, num_heads=2, num_layers=1, d_ff=16, length=4, batch=8)


def train(size, dropout, device, kernels, recompute=False, precision="float32", launch="one"):
    """A contender with the npformer kernels of this name ("numba", "numpy", "plain"; "cuda" on a GPU).

    size is a preset's name; recompute: layers compute their forward again in backward.
    launch, on a GPU: "one" step per graph launch, or "none" for eager operations.
    """
    chosen = backend(device, kernels, precision)
    if launch == "none":
        chosen = replace(chosen, engine=chosen.engine.eager())
    _prepare(MINUTE, dropout, chosen, False)[0]()  # compiles kernels before the clock runs
    held = memory_watched(chosen)
    task, loss, update = _prepare(PRESETS[size], dropout, chosen, recompute)
    facts = {"loss": loss}
    if device == "cupy":
        start = time.perf_counter()
        for _ in range(PREPARED):
            task()  # captures
        facts["ready_seconds"] = time.perf_counter() - start

    def on_device():
        return held() | launched(update)

    return Contender(
        about(chosen), {"step": lambda: task}, facts, chosen.device.synchronize, TOGETHER[device], on_device
    )


def _prepare(preset, dropout, chosen, recompute):
    """(a task that makes steps and returns their losses; the first loss, without dropout; the training step)."""
    model = training_model(preset, dropout, chosen, recompute)
    batch = preset.example_batch()
    src, tgt_in, tgt_out = batch
    loss, _ = model.ops.cross_entropy.forward(model(src, tgt_in), chosen.integers(tgt_out), model.config.pad_id, 0.0)
    update = npf.TrainStep(model, npf.Adam(model.arena, lr=1e-4, betas=(0.9, 0.98), eps=1e-9), seed=0)
    together = TOGETHER[chosen.name]
    if together == 1:
        return lambda: float(update(*batch)), float(loss), update
    return _several(update, batch, together, chosen), float(loss), update


def _several(update, batch, count, chosen):
    """Make so many steps, one by one; read their losses at the end."""

    def one_by_one():
        losses = [update(*batch) for _ in range(count)]
        return chosen.host(namespace(losses[0]).stack(losses)).tolist()

    return one_by_one
