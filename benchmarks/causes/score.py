"""Plants each cause in a step of a small model, and asks what is named first."""

import copy
from functools import cache

import numpy as np

import npformer as npf
from benchmarks.causes.planted import KINDS, SOUND_RUNS
from npformer.data import SequenceTask
from npformer.explain.causes import causes
from npformer.explain.change import change_of
from npformer.explain.made import made
from npformer.optim import Constant, WarmupCosine

STEPS, BATCH, PEAK, WARMUP, HIGH = 500, 32, 5e-3, 50, 0.1


def fresh(seed, **options):
    """A task, and a training step that has made nothing yet."""
    task = SequenceTask("reverse", seed=seed, symbols=8, max_length=6)
    size = len(task.vocabulary)
    config = npf.TransformerConfig(
        src_vocab_size=size, tgt_vocab_size=size, d_model=32, d_ff=64, num_heads=4, num_encoder_layers=1,
        num_decoder_layers=1, max_seq_len=task.max_length, dropout=0.05, norm_order=options.pop("norm_order", "pre"),
    )  # fmt: skip
    model = npf.Transformer(config, backend=npf.get_backend("numpy", kernels="numpy", threads=1), seed=seed)
    kind = npf.AdamW if options.pop("decays", True) else npf.Adam
    usual = {"clip_norm": 1.0, "schedule": WarmupCosine(PEAK, WARMUP, 2 * STEPS)}
    return task, npf.TrainStep(model, kind(model.arena), seed=seed, **usual | options)


def train(task, step, last):
    """Make steps until this one is made."""
    while step.step_number < last:
        step(*task.batch(step.step_number + 1, BATCH))


@cache
def trained(seed):
    """A sound run, STEPS steps long."""
    task, step = fresh(seed)
    train(task, step, STEPS)
    return task, step


def wrong_labels(task, step, batch):
    """Three sequences get other letters."""
    targets = np.array(batch[-1])
    letters = targets > 2  # after padding, begin and end
    first, size = 3, len(task.vocabulary) - 3
    moved = np.where(letters, first + (targets - first + 1) % size, targets)
    targets[:3] = moved[:3]
    return (*batch[:-1], targets)


def too_large_a_rate(task, step, batch):
    """Ten times that of its schedule."""
    schedule = step.schedule
    step.schedule = lambda number: 10 * schedule(number)
    return batch


def cut(task, step, batch):
    """A hundredth of the usual norm of the gradient."""
    t, beta2 = step.optimizer.t, step.optimizer.betas[1]
    step.clip_norm = 0.01 * float(np.sqrt(step.optimizer.v.sum() / (1 - beta2**t)))
    return batch


def broken_norm(task, step, batch):
    """Gains 20 times as large."""
    norms = [p for name, p in step.model.named_parameters() if name.endswith(".gamma")]
    norms[step.seed % len(norms)].data[...] *= 20
    return batch


def lost_moments(task, step, batch):
    """Nothing is left of them."""
    step.optimizer.m[...] = step.optimizer.v[...] = 0
    return batch


def much_decay(task, step, batch):
    """A third of every matrix."""
    step.optimizer.weight_decay = 1 / 3 / step.learning_rate
    return batch


def saturated(task, step, batch):
    """Queries 30 times as large."""
    queries = [p for name, p in step.model.named_parameters() if name.endswith("query.weight")]
    queries[step.seed % len(queries)].data[...] *= 30
    return batch


PLANT = {
    "labels": wrong_labels, "rate": too_large_a_rate, "clipping": cut, "norm": broken_norm, "moments": lost_moments,
    "decay": much_decay, "attention": saturated,
}  # fmt: skip


def planted(cause, seed):
    """The change by a step in which this cause is planted."""
    if cause == "warm-up":
        task, step = fresh(seed, schedule=Constant(HIGH))
        train(task, step, 1)
        return change_of(made(step, task.batch(2, BATCH)))
    task, step = trained(seed)
    step = copy.deepcopy(step)
    batch = PLANT[cause](task, step, tuple(task.batch(STEPS + 1, BATCH)))
    return change_of(made(step, batch))


def sound(number):
    """The change by a sound step: of a run in either norm order, with other options, early, in the middle or late."""
    smoothing, order = (0.0, 0.1)[number // 2 % 2], ("pre", "post")[number % 2]
    task, step = fresh(1000 + number, norm_order=order, label_smoothing=smoothing, decays=number % 3 > 0)
    train(task, step, (2, 30, 120, 300, STEPS)[number % 5])
    return change_of(made(step, task.batch(step.step_number + 1, BATCH)))


def score(seeds, sound_runs=SOUND_RUNS):
    """Yields a row for each step: what was planted, or "sound", and the causes that are named."""
    for seed in seeds:
        for kind in KINDS:
            yield row_of(kind.cause, seed, planted(kind.cause, seed))
    for number in range(sound_runs):
        yield row_of("sound", number, sound(number))


def row_of(cause, seed, change):
    """What was planted, and what is named."""
    named = causes(change)
    return {
        "planted": cause, "seed": seed, "named": [one.name for one in named], "before": change.before.loss,
        "change": change.change, "best_share": change.lowest[0], "evidence": [one.evidence for one in named],
    }  # fmt: skip
