"""A training step by hand, micro-batches, new masks, and a run that stops and resumes."""

from __future__ import annotations

import io
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from npformer.backend import Backend, get_backend
from npformer.check.cases.catalogue import SRC
from npformer.data import SequenceTask
from npformer.lab.museum.checks.check import TGT_IN, TGT_OUT, differ, of_backend, small_config
from npformer.layers import RandomKey
from npformer.models import Transformer
from npformer.optim import Adam, WarmupCosine
from npformer.run import RunDirectory, TrainingOptions, load_checkpoint
from npformer.run.checkpoint import latest_checkpoint
from npformer.training import Trainer, TrainStep
from npformer.training.progress import Progress


def _model(backend: Backend, dropout: float = 0.0) -> Transformer:
    return Transformer(small_config(dropout=dropout), backend=backend, seed=4)


def _by_hand(backend: Backend) -> list[str]:
    built, mirror = _model(backend, 0.2), _model(backend, 0.2)
    schedule = WarmupCosine(0.01, 2, 6)
    step = TrainStep(built, Adam(built.arena, eps=1e-3), seed=9, label_smoothing=0.1, clip_norm=0.3, schedule=schedule)
    m, v = (np.zeros(mirror.arena.size) for _ in range(2))
    for t in range(1, 4):
        loss_of_step = step(SRC, TGT_IN, TGT_OUT)
        logits, cache = mirror.forward(SRC, TGT_IN, key=RandomKey(9, t - 1))
        loss, loss_cache = backend.ops.cross_entropy.forward(logits, TGT_OUT, 0, 0.1)
        mirror.arena.grads[...] = 0
        mirror.backward(backend.ops.cross_entropy.backward(1.0, loss_cache), cache)
        g = np.array(mirror.arena.grads)
        g *= min(1.0, 0.3 / float(np.sqrt(np.sum(g * g))))
        m, v = 0.9 * m + 0.1 * g, 0.98 * v + 0.02 * g * g
        mirror.arena.values[...] -= schedule(t) * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.98**t)) + 1e-3)
        problems = differ(f"the loss of step {t}", loss_of_step, loss)
        problems += differ(f"a parameter after step {t}", built.arena.values, mirror.arena.values, tolerance=1e-11)
        if problems:
            return problems
    return []


def _micro(backend: Backend) -> list[str]:
    gradients, losses = [], []
    for accumulate in (1, 3):
        built = _model(backend)
        step = TrainStep(built, Adam(built.arena, lr=0.0), accumulate=accumulate)
        losses.append(step(SRC, TGT_IN, TGT_OUT))
        losses.append(step(SRC, TGT_IN, TGT_OUT))  # again: nothing of the first step may remain
        gradients.append(np.array(built.arena.grads))
    return differ("the loss in three parts", losses[2:], losses[:2]) + differ("a gradient", gradients[1], gradients[0])


def _slots(backend: Backend) -> list[str]:
    """Plain kernels have an engine, and so slots, for several threads."""
    several = get_backend("numpy", dtype=backend.dtype, kernels="plain", threads=2)
    whole, cut = (_model(each) for each in (backend, several))
    losses = [
        TrainStep(built, Adam(built.arena, lr=0.0), slots=slots)(SRC, TGT_IN, TGT_OUT)
        for built, slots in ((whole, 1), (cut, 4))
    ]
    problems = differ("the loss in four slots", losses[1], losses[0])
    return problems + differ("a gradient", cut.arena.grads, whole.arena.grads)


def _fresh(backend: Backend) -> list[str]:
    same = np.repeat(SRC[:1], 2, axis=0), np.repeat(TGT_IN[:1], 2, axis=0), np.repeat(TGT_OUT[:1], 2, axis=0)
    built = _model(backend, 0.5)
    step = TrainStep(built, Adam(built.arena, lr=0.0))
    losses = [float(step(*same)) for _ in range(3)]
    problems = [] if len(set(losses)) == 3 else [f"three steps on one batch have the losses {losses}: one mask for all"]
    logits: list[Any] = []
    forward = built.forward

    def spy(*inputs: Any, **options: Any) -> Any:
        result = forward(*inputs, **options)
        logits.append(result[0])
        return result

    built.forward = spy  # type: ignore[method-assign]
    TrainStep(built, Adam(built.arena, lr=0.0), accumulate=2)(*same)
    if np.array_equal(logits[0], logits[1]):
        problems.append("two micro-batches draw the same mask")
    return problems


def _resume(backend: Backend) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        straight = _train(Path(folder) / "a", backend, (4,))
        stopped = _train(Path(folder) / "b", backend, (2, 4))
    return [] if np.array_equal(straight, stopped) else ["parameters differ after stopping at step 2 and going on to 4"]


def _train(folder: Path, backend: Backend, stops: tuple[int, ...]) -> Any:
    """The parameters after training to each of stops in turn, each time resumed from disk."""
    task = SequenceTask("copy", seed=1, symbols=4, max_length=4)
    run = RunDirectory.create(folder, folder.parent, "copy")
    for stop in stops:
        built = Transformer(small_config(len(task.vocabulary), dropout=0.2), backend=backend, seed=2)
        step = TrainStep(built, Adam(built.arena), seed=3, schedule=WarmupCosine(0.01, 2, 8))
        options = TrainingOptions(
            steps=stop, warmup_steps=1, batch_size=4, log_every=100, eval_every=100, final_examples=1, save_every=100
        )
        trainer = Trainer(run, task, step, options, progress=Progress(stop, stream=io.StringIO()))
        latest = latest_checkpoint(run.checkpoints)
        if latest is not None:
            trainer.restore(load_checkpoint(latest))
        trainer.train()
    return np.array(built.arena.values)


CHECKS = of_backend(
    ("a step by hand", "three steps do what forward, loss, backward, clipping and Adam do in turn", _by_hand),
    ("micro-batches", "a batch in three parts gives the gradient of the whole, whatever the padding", _micro),
    ("slots", "a batch in four slots gives the gradient of the whole: of all tokens, not of the slots' means", _slots),
    ("fresh masks", "every step and every micro-batch draws its own dropout", _fresh),
    ("resume", "a run that stops and resumes ends bit for bit like an uninterrupted one", _resume),
)
