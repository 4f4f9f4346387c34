"""What a program does around its layers, as named numbers: a batch, training steps, a run that goes on, decoding."""

import io
import tempfile
from functools import partial
from pathlib import Path

import numpy as np

from npformer.backend import get_backend
from npformer.check.cases.case import shaken
from npformer.data import SEQUENCE, Characters, Example, SequenceTask, collate
from npformer.decoding import greedy
from npformer.models import Transformer, TransformerConfig
from npformer.optim import Adam, AdamW, Constant, Noam, WarmupCosine
from npformer.run import RunDirectory
from npformer.run.checkpoint import latest_checkpoint, load_checkpoint
from npformer.run.options import TrainingOptions
from npformer.run.progress import RunProgress
from npformer.run.trainer import Trainer
from npformer.training import TrainStep

SRC = np.array([[3, 5, 4, 6, 2], [6, 6, 2, 0, 0], [4, 2, 0, 0, 0]])
TGT_IN = np.array([[1, 6, 4, 5], [1, 6, 6, 0], [1, 4, 0, 0]])
TGT_OUT = np.array([[6, 4, 5, 2], [6, 6, 2, 0], [4, 2, 0, 0]])


def model(backend, dropout=0.2, vocabulary=7):
    """A small Transformer, every parameter moved from its initial value."""
    config = TransformerConfig(
        vocabulary, vocabulary, d_model=8, num_heads=2, d_ff=12, num_encoder_layers=1, num_decoder_layers=1,
        dropout=dropout,
    )  # fmt: skip
    return shaken(Transformer(config, backend=backend, seed=4))


def steps(backend, optimizer=Adam, several=False, **options):
    """The loss of each of three steps, and the parameters after it; several: of a backend for several threads."""
    if several:  # which has slots
        backend = get_backend("numpy", dtype=backend.dtype, kernels="plain", threads=2)
    built = model(backend)
    step = TrainStep(built, optimizer(built.arena, eps=1e-3), seed=9, label_smoothing=0.1, **options)
    made = {}
    for t in (1, 2, 3):
        made[f"the loss of step {t}"] = step(SRC, TGT_IN, TGT_OUT)
        made |= parameters(built, t)
    return made


def parameters(built, step):
    """A model's parameters after a step, by name."""
    return {f"{name} after step {step}": np.array(one.data) for name, one in built.named_parameters()}


def resumed(backend):
    """The parameters of a run that stops after two steps and goes on for two."""
    task = SequenceTask("copy", seed=1, symbols=4, max_length=4)
    with tempfile.TemporaryDirectory() as folder:
        run = RunDirectory.create(Path(folder) / "run", Path(folder), "copy")
        for stop in (2, 4):
            built = model(backend, vocabulary=len(task.vocabulary))
            step = TrainStep(built, Adam(built.arena), seed=3, schedule=WarmupCosine(0.01, 2, 8))
            often = {"log_every": 100, "eval_every": 100, "save_every": 100}
            options = TrainingOptions(steps=stop, warmup_steps=1, batch_size=4, final_examples=1, **often)
            trainer = Trainer(run, task, step, options, progress=RunProgress(stop, stream=io.StringIO()))
            latest = latest_checkpoint(run.checkpoints)
            if latest is not None:
                trainer.restore(load_checkpoint(latest))
            trainer.train()
        return parameters(built, 4)


def decoded(backend):
    """The likeliest tokens, and the logits of decoding step by step."""
    built = model(backend)
    state = built.start(SRC, 4)
    logits = np.stack([built.step(TGT_IN[:, t], state) for t in range(4)], axis=1)  # (B, T, V)
    return {"a logit of a step": logits, "a decoded token": greedy(built, SRC, 6)}


def batch(backend):
    """A batch that is made of two texts."""
    made = collate([Example("ab", "xyz"), Example("c", "x")], Characters.learn("abcxyz", special=SEQUENCE))
    return {name: getattr(made, name) for name in ("src", "tgt_in", "tgt_out")}


#: Name -> gives the numbers of a backend's program.
SCENES = {
    "a batch": batch,
    "training steps": partial(steps, schedule=Noam(8, 2), clip_norm=0.3),
    "training steps of AdamW": partial(steps, optimizer=AdamW, schedule=Constant(0.01), clip_norm=100.0),
    "training steps in three parts": partial(steps, accumulate=3),
    "training steps in slots": partial(steps, several=True, slots=4),
    "a run that stops and goes on": resumed,
    "decoding": decoded,
}
