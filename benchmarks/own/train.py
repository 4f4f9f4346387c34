"""npformer's training step: forward, loss, backward, Adam, and the loss read back."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import npformer as npf
from benchmarks.contender import peak_memory
from benchmarks.own.backend import about, backend
from benchmarks.own.model import training_model
from benchmarks.tasks import Contender
from npformer.backend import Backend
from npformer.models.presets import PRESETS, Preset

MINUTE = Preset(vocab_size=16, d_model=16, num_heads=2, num_layers=1, d_ff=16, length=4, batch=8)


def train(
    size: str | Mapping[str, int], dropout: float, device: str, bodies: str, recompute: bool = False
) -> Contender:
    """The contender with npformer's bodies of that name ("compiled", "numpy", "plain").

    size is a preset's name, or the fields of a Preset; recompute: layers compute their forward again in backward.
    """
    chosen = backend(device, bodies)
    preset = PRESETS[size] if isinstance(size, str) else Preset(**size)
    _prepare(MINUTE, dropout, chosen, False)[0]()  # compiles, where bodies are compiled, before the clock runs
    prepared = peak_memory()
    step, loss = _prepare(preset, dropout, chosen, recompute)
    facts = {"loss": loss, "threads": chosen.threads, "prepared_bytes": prepared}
    return Contender(about(chosen), {"step": lambda: step}, facts, chosen.device.synchronize)


def _prepare(preset: Preset, dropout: float, chosen: Backend, recompute: bool) -> tuple[Callable[[], float], float]:
    """(a step, which returns its loss; the loss before all steps, without dropout)."""
    model = training_model(preset, dropout, chosen, recompute)
    src, tgt_in, tgt_out = preset.example_batch()
    loss, _ = model.ops.cross_entropy.forward(model(src, tgt_in), chosen.integers(tgt_out), model.config.pad_id, 0.0)
    update = npf.TrainStep(model, npf.Adam(model.arena, lr=1e-4, betas=(0.9, 0.98), eps=1e-9), seed=0)

    def step() -> float:
        return float(update(src, tgt_in, tgt_out))

    return step, float(loss)
