"""Makes the training runs of runs_gone_wrong.toml, in which a mistake is planted, and measures what each mistake costs.

    python -m benchmarks.runs_gone_wrong --save benchmarks/results/runs-gone-wrong.json
    python -m benchmarks.runs_gone_wrong --list runs_gone_wrong_blind
    python -m benchmarks.runs_gone_wrong --explain --save benchmarks/results/runs-explained.json
    python -m benchmarks.runs_gone_wrong --make dead-copy-warm runs/dead      this run alone, in a new folder

A row of the result has the training and the held-out loss at the end, and how many times larger one of them is than
that of the run's twin, in which nothing is planted; none where the run diverged.

With --explain a row has the causes that are named, the first step with a bad loss, how many steps were made again, and
whether the first cause, with its parts, is a right one, or none is named of a sound run.

Exit code: 0 a report was made, 2 bad input.
"""

import math
import tempfile
import tomllib
from contextlib import suppress
from fnmatch import fnmatch
from itertools import product
from pathlib import Path

import numpy as np

from benchmarks import machine, report
from benchmarks.options import add_save, bare_parser
from npformer.cli.train import changes_of
from npformer.data import PairsTask, SequenceTask
from npformer.errors import DivergedError
from npformer.run import metrics
from npformer.run.begin import continued, new_run
from npformer.run.journal import Listeners
from npformer.see.explain.run import Course

LIST = "runs_gone_wrong"
DRAWN = 40_000  # words, of which many are alike
SEPARATORS = {"pairs": "\t", "lm": "="}  # between words and targets, by the tasks that read a file of them
#: What a row has where it says nothing else; with this over it, a row is its twin.
SOUND = {"set": {}, "then": {}, "at": 0, "edit": ("", "keep", 0), "spoil": 0, "lines": 12_000}


def rows(name=LIST):
    """The rows of a list by name, each with all that it inherits."""
    found, usual = {}, listed(LIST)
    for kind in listed(name)["kind"]:
        for task, pace in product(kind.get("tasks", usual["tasks"]), kind.get("paces", usual["paces"])):
            base = merged([usual["defaults"], usual["tasks"][task], usual["paces"][pace]])
            own = {"base": base | {"task": task, "seed": len(found)}, "target": task}
            parts = [SOUND, own, kind, kind.get(task, {}), kind.get(pace, {})]
            options = {table: merged(part.get(table, {}) for part in parts) for table in ("base", "set", "then")}
            found[f"{kind['name']}-{task}-{pace}"] = merged(parts) | options
    return found


def listed(name):
    """The content of a list."""
    return tomllib.loads(Path(__file__).with_name(f"{name}.toml").read_text(encoding="utf-8"))


def merged(tables):
    """One table of several; what comes later counts."""
    return {name: value for table in tables for name, value in table.items()}


def make(row, folder):
    """Make the run of a row in a new folder. Returns its last training and held-out loss."""
    options = merged([row["base"], row["set"]])
    if options["task"] in SEPARATORS:
        options["file"] = f"{folder}.txt"
        write_words(row, Path(options["file"]))
    chosen = changes_of(f"{name}={x}" for name, x in options.items() if name not in row.get("without", ()))
    at, (pattern, how, number), first = row["at"], row["edit"], {}

    def edit():
        for name, parameter in trainer.step.model.named_parameters():
            if fnmatch(name, pattern):
                old = first.setdefault(name, parameter.data.copy())
                parameter.data[...] = {"times": old * number, "plus": old + number, "keep": old}[how]

    def stepped(made):
        if made.step == at or (how == "keep" and made.step > at):
            edit()
        if row["then"] and made.step > at:
            raise InterruptedError

    with suppress(DivergedError, InterruptedError), new_run(chosen, folder, on_step=stepped) as trainer:
        if pattern and at == 0:
            edit()
            trainer.save()  # so that no step has to be made again from other parameters
        trainer.train()
    if row["then"]:
        changes = changes_of(f"{name}={x}" for name, x in row["then"].items())
        with suppress(DivergedError), continued(folder, changes, Listeners()) as (trainer, _):
            trainer.train()
    losses = {line["kind"]: float(line["loss"]) for line in metrics.read(trainer.run.metrics_path) if "loss" in line}
    return losses["train"], losses["eval"]


def write_words(row, path):
    """Write a row's file of words and targets. Some targets of batches after its step are wrong, if it says so."""
    base, random = row["base"], np.random.default_rng(row["base"]["seed"])
    longest = row.get("longest", base["max_length"])
    drawn = SequenceTask(row["target"], seed=base["seed"], symbols=base["symbols"], max_length=longest)

    def decoded(task, step, size):
        source, _, target = task.batch(step, size)
        return dict(zip(*(map(task.tokenizer.decode, side) for side in (source, target)), strict=True))

    def write():
        lines = [f"{word}{SEPARATORS[base['task']]}{target}\n" for word, target in words.items()]
        path.write_text("".join(lines[: row["lines"]]), encoding="utf-8")

    words = decoded(drawn, 1, DRAWN)
    write()
    if row["spoil"]:  # by targets as long as they were: the order of the batches stays
        task = PairsTask.from_tsv(path, seed=base["seed"])
        for step in range(row["at"] + 1, base["steps"] + 1):
            for word, target in decoded(task, step, base["batch_size"]).items():
                if random.random() < row["spoil"]:
                    words[word] = "".join(random.permutation(list(target)))
        write()


def measured(name, row):
    """The losses of a run and of its twin, and how many times larger one is."""
    with tempfile.TemporaryDirectory() as folder:
        found = {"run": name, "losses": make(row, Path(folder, "run"))}
        if "cause" in row:
            found["twin"] = make(row | SOUND, Path(folder, "twin"))
            found["worse"] = max(ours / sound for ours, sound in zip(found["losses"], found["twin"], strict=True))
    return found if math.isfinite(sum(found["losses"])) else found | {"losses": None, "worse": None}


def explained(name, row):
    """What explain RUN says of a run."""
    with tempfile.TemporaryDirectory() as folder:
        make(row, Path(folder, "run"))
        course = Course(Path(folder, "run"))
    first = [(cause.name, [*cause.parts]) for cause in course.causes][:1]
    step, where = course.hurt and (course.hurt.first or course.hurt.by), tuple(row.get("where", [""]))
    right = not first
    if "cause" in row:
        right = any(cause in (row["cause"], *row.get("also", ())) for cause, _ in first)
        right = right and all(part.startswith(where) for _, parts in first for part in parts)
    found = {"run": name, "named": [cause.name for cause in course.causes], "step": step, "made_again": course.made}
    return found | {"cause": row.get("cause"), "right": right}


def main(argv=None):
    """Parse, make, report."""
    parser = bare_parser("runs_gone_wrong", __doc__)
    parser.add_argument("--make", nargs=2, metavar=("RUN", "DIR"), help="this run alone, in this folder")
    parser.add_argument("--list", default=LIST, help="a list beside this file (default: %(default)s)")
    parser.add_argument("--explain", action="store_true", help="what npformer explain says of each run")
    add_save(parser)
    args, found = parser.parse_args(argv), []
    known = rows(args.list)
    if args.make:
        print(*make(known[args.make[0]], Path(args.make[1])))
        return 0
    for each in known.items():
        found.append((explained if args.explain else measured)(*each))
        report.say(found[-1], args.json)
    head = {
        "benchmark": "runs-explained" if args.explain else "runs-gone-wrong",
        "machine": machine.describe([], "numpy", ["float32"]),
    }
    report.finish_rows(head, found, args)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
