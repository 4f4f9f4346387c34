"""The museum's short training runs, with and without a bug."""

import math
from functools import partial

import numpy as np

from npformer.backend import get_backend
from npformer.data import SequenceTask
from npformer.io.progress_bar import watched
from npformer.lab.museum.patch import patched
from npformer.lab.museum.stored import STEPS, End, TrainingCourse
from npformer.models import Transformer, TransformerConfig
from npformer.optim import Adam, AdamW, Constant, Noam
from npformer.training import TrainStep
from npformer.training.evaluation import evaluate_task

BATCH, HELD_OUT = 32, 60
SEEDS = range(3)
RATE = 3e-3
#: It begins from Xavier's values, as most of the projects do in which the bugs were found.
MODEL = {
    "d_model": 32, "num_heads": 4, "num_encoder_layers": 2, "num_decoder_layers": 2, "d_ff": 64, "dropout": 0.0,
    "init": "xavier",
}  # fmt: skip
OF_MODEL = ("dropout", "norm_order", "activation", "positions", "tie_embeddings")
OF_STEP = ("clip_norm", "accumulate", "label_smoothing", "slots")


def right_course(options, steps=STEPS):
    """The runs without a bug, with these options."""
    backend = get_backend("numpy", dtype="float32", kernels="plain", threads=1)
    return course(partial(train, options, backend, steps, "training without the bug"))


def wrong_course(bug, steps=STEPS):
    """The runs with the bug. An exception that it causes is noted, not raised."""
    with patched(bug.edits, dtype="float32") as backend, np.errstate(all="ignore"):
        return course(partial(train, bug.run or {}, backend, steps, "training with the bug"))


def course(train_with):
    """The course of the first seed, with the ends of all."""
    runs = [train_with(seed) for seed in SEEDS]
    losses, _, trouble = runs[0]
    tail = max(1, len(losses) // 10)
    ends = tuple(End(float(np.mean(losses[-tail:])), exact) for losses, exact, _ in runs)
    return TrainingCourse(tuple(losses), ends, trouble)


def train(options, backend, steps, what, seed):
    """The loss of each step, the share of held-out words decoded rightly, and the exception that ended it, if any."""
    lengths = {"min_length": 6 if options.get("equal_lengths") else 1, "max_length": 6}
    task = SequenceTask("reverse", seed=1 + 10 * seed, symbols=8, **lengths)
    losses, doing = [], "training"
    try:
        step = step_of(options, backend, task, seed)
        for number in watched(range(1, steps + 1), what):
            losses.append(float(step(*task.batch(number, BATCH))))
        doing = "decoding"
        return losses, evaluate_task(step.model, task, HELD_OUT).exact_match, ""
    except Exception as error:
        losses += [math.nan] * (steps - len(losses))
        return losses, math.nan, f"{doing} stops with {type(error).__name__}: {error}"


def step_of(options, backend, task, seed=0):
    """The training step of a small model, with the options of a bug's run."""
    if "slots" in options:  # which an engine has, and plain kernels have one for several threads
        backend = get_backend("numpy", dtype=backend.dtype, kernels="plain", threads=2)
    size = len(task.vocabulary)
    chosen = MODEL | {name: options[name] for name in OF_MODEL if name in options}
    config = TransformerConfig(size, size, max_seq_len=task.max_length, **chosen)
    model = Transformer(config, backend=backend, seed=2 + 10 * seed)
    betas, eps = (0.9, 0.98), options.get("eps", 1e-9)
    decay = options.get("weight_decay")
    optimizer = Adam(model.arena, RATE, betas, eps) if decay is None else AdamW(model.arena, RATE, betas, eps, decay)
    schedule = Noam(config.d_model, 60, 0.5) if options.get("schedule") == "noam" else Constant(RATE)
    return TrainStep(
        model, optimizer, seed=3 + 10 * seed, schedule=schedule, **{n: options[n] for n in OF_STEP if n in options}
    )
