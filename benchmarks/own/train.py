"""npformer's training step: forward, loss, backward, Adam, and the loss read back."""

from __future__ import annotations

from collections.abc import Callable

import npformer as npf
from benchmarks.own.backend import about, backend
from benchmarks.own.model import training_model
from benchmarks.tasks import Contender
from npformer.backend import Backend
from npformer.models.presets import PRESETS, Preset


def train(size: str, dropout: float, device: str, bodies: str) -> Contender:
    """The contender with npformer's bodies of that name ("compiled", "numpy", "plain")."""
    chosen = backend(device, bodies)
    _prepare(PRESETS["tiny"], dropout, chosen)[0]()  # compiles, where bodies are compiled, before the clock runs
    step, loss = _prepare(PRESETS[size], dropout, chosen)
    return Contender(about(chosen), {"step": lambda: step}, {"loss": loss}, chosen.device.synchronize)


def _prepare(preset: Preset, dropout: float, chosen: Backend) -> tuple[Callable[[], float], float]:
    """(a step, which returns its loss; the loss before all steps, without dropout)."""
    model = training_model(preset, dropout, chosen)
    src, tgt_in, tgt_out = preset.example_batch()
    loss, _ = model.ops.cross_entropy.forward(model(src, tgt_in), chosen.integers(tgt_out), model.config.pad_id, 0.0)
    update = npf.TrainStep(model, npf.Adam(model.arena, lr=1e-4, betas=(0.9, 0.98), eps=1e-9), seed=0)

    def step() -> float:
        return float(update(src, tgt_in, tgt_out))

    return step, float(loss)
