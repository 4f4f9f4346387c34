"""Whether explain --step names the cause that was planted in a step first, and accuses no sound step.

    python -m benchmarks.causes                      eight kinds of planted cause, five seeds each, and 20 sound steps
    python -m benchmarks.causes --sound 0            the planted ones alone
    python -m benchmarks.causes --save benchmarks/results/causes.json

What is planted, and what must be named first, was written before the code (``KINDS``). Thresholds were chosen with
seeds above 100; those counted here are 0 to 4.

Exit code: 0 a report was made, 2 bad input.
"""

import copy
from functools import cache

import numpy as np

import npformer as npf
from benchmarks import machine, page_tables, report
from benchmarks.options import add_save, bare_parser
from npformer.data import SequenceTask
from npformer.optim import Constant, WarmupCosine
from npformer.see.explain.change import causes, change_of
from npformer.see.explain.step import replay_step

#: Each kind is planted for five seeds, in a small model that reverses words. At least 35 of the 40 must be named first.
#: Of 20 sound steps, at which nothing is planted, at most one may be accused of anything.
SEEDS = range(5)
SOUND_RUNS = 20
LEAST_NAMED, MOST_ACCUSED = 35, 1
#: What is planted before a step of a sound run, and must be named first; ``PLANT`` does it.
KINDS = ("labels", "rate", "warm-up", "clipping", "norm", "moments", "decay", "attention")
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
    """The targets of three sequences of the batch are exchanged for wrong letters."""
    targets = np.array(batch[-1])
    letters = targets > 2  # after padding, begin and end
    first, size = 3, len(task.vocabulary) - 3
    moved = np.where(letters, first + (targets - first + 1) % size, targets)
    targets[:3] = moved[:3]
    return (*batch[:-1], targets)


def too_large_a_rate(task, step, batch):
    """The step is made at ten times the rate of its schedule."""
    schedule = step.schedule
    step.schedule = lambda number: 10 * schedule(number)
    return batch


def cut(task, step, batch):
    """The gradient is clipped to a hundredth of its usual norm, for this step alone."""
    t, beta2 = step.optimizer.t, step.optimizer.betas[1]
    step.clip_norm = 0.01 * float(np.sqrt(step.optimizer.v.sum() / (1 - beta2**t)))
    return batch


def broken_norm(task, step, batch):
    """The gains of one normalisation are 20 times what they were."""
    norms = [p for name, p in step.model.named_parameters() if name.endswith(".gamma")]
    norms[step.seed % len(norms)].data[...] *= 20
    return batch


def lost_moments(task, step, batch):
    """Both of Adam's moments are 0, as after a resume that lost them, but t goes on."""
    step.optimizer.m[...] = step.optimizer.v[...] = 0
    return batch


def much_decay(task, step, batch):
    """AdamW's weight decay takes a third of every matrix."""
    step.optimizer.weight_decay = 1 / 3 / step.learning_rate
    return batch


def saturated(task, step, batch):
    """The queries of one attention are 30 times what they were, so that its softmax saturates."""
    queries = [p for name, p in step.model.named_parameters() if name.endswith("query.weight")]
    queries[step.seed % len(queries)].data[...] *= 30
    return batch


PLANT = {
    "labels": wrong_labels, "rate": too_large_a_rate, "clipping": cut, "norm": broken_norm, "moments": lost_moments,
    "decay": much_decay, "attention": saturated,
}  # fmt: skip


def planted(cause, seed):
    """The change by a step in which this cause is planted."""
    if cause == "warm-up":  # the second step of a fresh model is made at the full rate
        task, step = fresh(seed, schedule=Constant(HIGH))
        train(task, step, 1)
        return change_of(replay_step(step, task.batch(2, BATCH)))
    task, step = trained(seed)
    step = copy.deepcopy(step)
    batch = PLANT[cause](task, step, tuple(task.batch(STEPS + 1, BATCH)))
    return change_of(replay_step(step, batch))


def sound(number):
    """The change by a sound step: of a run in either norm order, with other options, early, in the middle or late."""
    smoothing, order = (0.0, 0.1)[number // 2 % 2], ("pre", "post")[number % 2]
    task, step = fresh(1000 + number, norm_order=order, label_smoothing=smoothing, decays=number % 3 > 0)
    train(task, step, (2, 30, 120, 300, STEPS)[number % 5])
    return change_of(replay_step(step, task.batch(step.step_number + 1, BATCH)))


def score(seeds, sound_runs=SOUND_RUNS):
    """Yields a row for each step: what was planted, or "sound", and the causes that are named."""
    for seed in seeds:
        for kind in KINDS:
            yield row_of(kind, seed, planted(kind, seed))
    for number in range(sound_runs):
        yield row_of("sound", number, sound(number))


def row_of(cause, seed, change):
    """What was planted, and what is named."""
    named = causes(change)
    return {
        "planted": cause, "seed": seed, "named": [one.name for one in named], "before": change.before.loss,
        "change": change.change, "best_share": change.lowest[0], "evidence": [one.evidence for one in named],
    }  # fmt: skip


def main(argv=None):
    """Parse, plant, report."""
    parser = bare_parser("causes", __doc__)
    parser.add_argument("--sound", type=int, default=SOUND_RUNS, metavar="N", help="sound steps (default: %(default)s)")
    add_save(parser)
    args = parser.parse_args(argv)
    rows = []
    for row in score(SEEDS, args.sound):
        rows.append(row)
        report.progress(f"{len(rows)}: {row['planted']} {row['seed']}: {', '.join(row['named']) or 'nothing'}")
    report.progress("")
    about = machine.describe([], "numpy", ["float32", "float64"])
    head = {"benchmark": "causes", "machine": about, "summary": summary(rows)}
    report.say(page_tables.causes([{"file": "not saved", **head}]), args.json)
    report.finish_rows(head, rows, args)
    return 0


def summary(rows):
    """How often each planted cause was named first, named at all; and how many sound steps were accused."""
    found = {}
    for kind in KINDS:
        of = [row["named"] for row in rows if row["planted"] == kind]
        first, named = sum(each[:1] == [kind] for each in of), sum(kind in each for each in of)
        found[kind] = {"steps": len(of), "first": first, "named": named}
    sound = [row["named"] for row in rows if row["planted"] == "sound"]
    return {"planted": found, "sound": len(sound), "accused": sum(map(bool, sound))}


if __name__ == "__main__":
    raise SystemExit(main())
