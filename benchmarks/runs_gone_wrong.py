"""Makes the training runs of runs_gone_wrong.toml, in which a mistake is planted, and measures what each mistake costs.

    python -m benchmarks.runs_gone_wrong --save benchmarks/results/runs-gone-wrong.json
    python -m benchmarks.runs_gone_wrong --list runs_gone_wrong_blind
    python -m benchmarks.runs_gone_wrong dead-copy-warm runs/dead      this run alone, in a new folder

A row of the result has the training and the held-out loss at the end, and how many times larger one of them is than the
twin's; none where the run diverged.

Exit code: 0 a report was made, 2 bad input.
"""

import math
import tempfile
import tomllib
from contextlib import suppress
from dataclasses import fields
from fnmatch import fnmatch
from itertools import product
from pathlib import Path

import numpy as np

from benchmarks import machine, report
from benchmarks.options import add_save, bare_parser
from npformer.data import PairsTask
from npformer.errors import DivergedError
from npformer.run import metrics
from npformer.run.begin import continued, new_run
from npformer.run.journal import Listeners
from npformer.run.options import SECTIONS

LIST = "runs_gone_wrong"
TARGETS = {"reverse": lambda word: word[::-1], "copy": str, "sort": lambda word: "".join(sorted(word))}
SEPARATORS = {"pairs": "\t", "lm": "="}  # of a file's words and targets, by the tasks that read one
#: What a row has where it says nothing else; with this over it, a row is its twin.
SOUND = {"set": {}, "then": {}, "at": 0, "edit": ("", "keep", 0), "spoil": 0, "lines": 12_000}


def rows(name=LIST):
    """The rows of a list by name, each with all that it inherits."""
    found, usual = {}, listed(LIST)
    for kind in listed(name)["kind"]:
        for task, pace in product(kind.get("tasks", TARGETS), kind.get("paces", usual["paces"])):
            base = {**usual["defaults"], **usual["paces"][pace], "task": task, "seed": len(found)}
            parts = [SOUND | {"base": base, "target": task}, kind, kind.get(task, {}), kind.get(pace, {})]
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
    options = {name: x for name, x in merged([row["base"], row["set"]]).items() if name not in row.get("without", ())}
    if options["task"] in SEPARATORS:
        options["file"] = f"{folder}.txt"
        write_words(row, Path(options["file"]))
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

    with suppress(DivergedError, InterruptedError), new_run(by_section(options), folder, on_step=stepped) as trainer:
        if pattern and at == 0:
            edit()
            trainer.save()  # so that no step has to be made again from other parameters
        trainer.train()
    if row["then"]:
        with suppress(DivergedError), continued(folder, by_section(row["then"]), Listeners()) as (trainer, _):
            trainer.train()
    losses = {line["kind"]: float(line["loss"]) for line in metrics.read(trainer.run.metrics_path) if "loss" in line}
    return losses["train"], losses["eval"]


def by_section(options):
    """Options by section."""
    names = {section: [option.name for option in fields(kind)] for section, kind in SECTIONS.items()}
    return {section: {name: x for name, x in options.items() if name in names[section]} for section in SECTIONS}


def write_words(row, path):
    """Write a row's file of words and targets. Some targets of batches after its step are wrong, if it says so."""
    base, random = row["base"], np.random.default_rng(row["base"]["seed"])

    def drawn(size):
        return "".join(map(chr, random.integers(97, 97 + base["symbols"], size)))

    def write():
        path.write_text("".join(f"{word}{SEPARATORS[base['task']]}{target}\n" for word, target in words.items()))

    words = {}
    while len(words) < row["lines"]:
        word = drawn(random.integers(1, base["max_length"] + 1))
        words[word] = TARGETS[row["target"]](word)
    write()
    if row["spoil"]:  # by targets as long as they were: the order of the batches stays
        task = PairsTask.from_tsv(path, seed=base["seed"])
        spared = {example.source for example in task.held_out()}
        for step in range(1, row["at"] + 1):
            spared |= set(map(task.tokenizer.decode, task.batch(step, base["batch_size"])[0]))
        words |= {word: drawn(len(word)) for word in words if word not in spared and random.random() < row["spoil"]}
        write()


def measured(name, row):
    """The losses of a run and of its twin, and how many times larger one is."""
    with tempfile.TemporaryDirectory() as folder:
        found = {"run": name, "losses": make(row, Path(folder, "run"))}
        if "cause" in row:
            found["twin"] = make(row | SOUND, Path(folder, "twin"))
            found["worse"] = max(ours / sound for ours, sound in zip(found["losses"], found["twin"], strict=True))
    if not math.isfinite(sum(found["losses"])):
        found |= {"losses": None, "worse": None}
    return found


def main(argv=None):
    """Parse, make, report."""
    parser = bare_parser("runs_gone_wrong", __doc__)
    add = parser.add_argument
    add("run", nargs="?", metavar="RUN", help="make this run alone")
    add("folder", nargs="?", type=Path, default="runs/gone-wrong", metavar="DIR", help="its folder (%(default)s)")
    add("--list", default=LIST, metavar="NAME", help="of a list beside this file (default: %(default)s)")
    add_save(parser)
    args = parser.parse_args(argv)
    known = rows(args.list)
    if args.run:
        print(*make(known[args.run], args.folder))
        return 0
    found = []
    for name, row in known.items():
        found.append(measured(name, row))
        report.say(found[-1], args.json)
    head = {"benchmark": "runs-gone-wrong", "machine": machine.describe([], "numpy", ["float32"])}
    report.finish_rows(head, found, args)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
