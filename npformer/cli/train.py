"""npformer train: train a model on a task, or continue a run where it stopped."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from npformer.cli.common import add_device, add_precision
from npformer.data import PAD_ID, Example, Task
from npformer.errors import CheckpointError, ConfigError, DeviceMemoryError, DivergedError, OutputError
from npformer.io.percent import finite
from npformer.io.printable import shell_words, visible
from npformer.io.terminal import GREEN, RED, fill, folded, paint
from npformer.models import Encoder, Model
from npformer.run import metrics
from npformer.run.answers import Sampling, answer
from npformer.run.assemble import Assembled
from npformer.run.begin import begun, continued, way_on
from npformer.run.config_file import parse_assignment, read_toml
from npformer.run.journal import Listeners
from npformer.run.options import SECTIONS, model_options, option_rows
from npformer.run.processes import in_processes, tell_folder
from npformer.run.progress import measures
from npformer.run.sinks import SINKS
from npformer.run.tasks import TASKS
from npformer.run.text_example import MASK
from npformer.run.trained import Trained
from npformer.run.trainer import Trainer, suggest_more_steps
from npformer.run.world import World
from npformer.see.page.report import write_ending
from npformer.training import Evaluation
from npformer.training.evaluation import likeliest

SAMPLE_LENGTH, SAMPLES = 400, 100
SAMPLE_BEGINS = re.compile(r"\s*(?:\S+\s+){0,2}\S{1,20}")  # of a held-out text: up to three words

#: Of the held-out examples that are shown.
SHOWN = 5
_WIDEST = 60  # characters of a text; the outputs are aligned behind the sources
_AROUND = 5  # the pieces of a text on each side of a hidden one

#: How long ``npformer train reverse`` takes with NumPy alone, for README and the help; a test compares it with results.
TAKES = "about ten seconds"

#: The slots of a run for several processes, unless its options say how many.
SLOTS = 8
#: Options that have a spelling of their own, by the parser's names, and the words that differ from these.
SHORT = {"task": "run.task", "data": "data.file", "seed": "run.seed", "device": "run.device", "slots": "training.slots",
         "precision": "run.precision", "init_from": "run.init_from", "log_to": "run.log_to"}  # fmt: skip
SPELLED = {"task": "TASK", "init_from": "--from"}

SUMMARY = "Train a model on a task."
EXAMPLES = f"""examples:
  npformer train reverse                                   {TAKES} on two CPU cores
  npformer train pairs --data mine.tsv                     your own lines of source<TAB>target
  npformer train numbers                                   English number words to French ones
  npformer train scan --set split=jump                     commands to actions; splits simple, length, jump
  npformer train lm --data mine.txt                        a language model of any UTF-8 text file of your own
  npformer train lm --data mine.txt --set tokenizer=words  the same by words; without --data: Python's manual
  npformer train sort --set steps=3000 --set d_model=128   options of the run
  npformer train reverse --set patience=5                  early stopping
  npformer train lm --data mine.txt --set accumulate=4     gradient accumulation
  npformer train pairs --data mine.tsv --from runs/pairs-001  fine-tuning: start from the weights of another run
  npformer train lm --data mine.txt --log-to tensorboard,csv  metrics for TensorBoard, and as a table
  npformer train lm --data mine.txt --processes 2          on two processes, with the same bits as on 1, 4 or 8
  npformer train --resume runs/reverse-001                 continue, bit for bit
  npformer train --resume runs/reverse-001 --set steps=800  let a finished run go on
  npformer train lm --options                              every option of a task, with its default

Options are stored in config.toml in the run's folder, in sections [run], [data], [model], [training]. --config reads a
file of the same form; --set section.key=value (or key=value) sets a single option."""


WHAT = (
    "what to learn: copy, reverse, sort words of random letters; lm: the next character or word of a text file of "
    "your own, or of Python's manual; pairs: source and target in a file of your own; dates, numbers, scan: "
    "translations; language: which one a date is in; tags: what each word of a date is; mlm: hidden tokens of Python's "
    "manual. dates, numbers, language and tags need the extra 'data'"
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    add = parser.add_argument
    add("task", metavar="TASK", nargs="?", choices=tuple(TASKS), help=WHAT)
    add("--data", metavar="FILE", help="for lm: a UTF-8 text; for pairs: lines of source<TAB>target")
    add("--options", action="store_true", help="list every option of TASK (or of all), train nothing")
    add("--config", metavar="FILE", type=Path, help="options in TOML")
    add("--set", metavar="KEY=VALUE", action="append", default=[], help="an option; may be repeated")
    add("--seed", type=int, help="the seed of parameters, data order and dropout (default 0)")
    add("--out", metavar="DIR", type=Path, help="the run's folder (default runs/TASK-001, -002, …)")
    add("--from", metavar="RUN", dest="init_from", help="start from the weights of a run or of a file of npf.save")
    add("--log-to", metavar="SINKS", help=f"write the metrics to these, too, with commas: {', '.join(SINKS)}")
    add("--slots", metavar="K", type=int, help="ranges of rows that decide the bits, for 1 to K processes (1 or 8)")
    add("--processes", metavar="N", type=int, help="train in N processes of MPI (extra 'mpi'); a power of two up to K")
    add("--shard-optimizer", action="store_true", help="each of several processes keeps a part of Adam's moments")
    add("--resume", metavar="RUN", type=Path, help="continue the run in this folder")
    add_device(parser, default=None)
    add_precision(parser, default=None)


def run(args: argparse.Namespace) -> int:
    """Train; print held-out results."""
    if args.options:
        print(options_text(args.task, args.json))
        return 0
    return in_processes(args.processes, args.words, partial(_train, args))


def _train(args: argparse.Namespace, ranks: Any) -> int:
    """The same as one process of those that the communicator connects."""
    with _opened(args, World(ranks, args.shard_optimizer)) as (trainer, assembled):
        if trainer.writes:
            tell_folder(trainer.run.path)
        if not args.json:
            print(_introduction(trainer, assembled), file=sys.stderr, flush=True)
        try:
            trainer.train()
            evaluation = trainer.last_evaluation or trainer.evaluate(assembled.options.training.final_examples)
            trainer.expect_finite(evaluation)
            if not trainer.writes:
                return 0
            sample = _sample(trainer) if evaluation.kind == "causal" else None
            pictures, report = write_ending(trainer, assembled.options, evaluation)
        except (CheckpointError, DeviceMemoryError, DivergedError, OutputError) as error:
            error.exit_code = 1  # the run has begun
            raise
    print((_as_json if args.json else _as_text)(trainer, evaluation, pictures, sample, report))
    return 0


def _opened(args: argparse.Namespace, world: World) -> AbstractContextManager[tuple[Trainer, Assembled]]:
    """A new run or the one to resume, ready to train and locked against other processes."""
    if args.resume is None:
        in_slots = args.processes is not None or world.ranks is not None
        return begun(world.agreed(lambda: options_from_args(args, in_slots)), args.out, Listeners(), world)
    changes = world.agreed(lambda: changes_on_resume(args))
    return continued(args.resume, changes, Listeners(), world)


def _introduction(trainer: Trainer, assembled: Assembled) -> str:
    model, training, made = trainer.step.model, assembled.options.training, trainer.step.step_number
    path, (why, again) = visible(trainer.run.path), way_on(trainer)
    if why:
        text = f"{path} {why}; to let it go on: {again}"
    else:
        text = (
            f"training {visible(trainer.task.name)} with {model.backend}: {model.num_parameters():,} parameters, "
            f"steps {made} to {training.steps} of {training.batch_size} sequences\nthe run's folder is {path}"
        )
    return folded(text, sys.stderr)


def _prompt(task: Task) -> str:
    """What a trained model may read next: a held-out text of known pieces, or the words with which one begins."""
    if task.kind == "masked":
        return f"the {MASK} is returned"
    texts = (example.source for example in task.held_out(SAMPLES))
    if task.kind == "causal":
        texts = (match.group().strip() for match in map(SAMPLE_BEGINS.match, texts) if match)
    return next((text for text in texts if not task.tokenizer.coverage([text]).missing), "")


def _sample(trainer: Trainer) -> str:
    """A text sampled from the model; the same for the same model."""
    task, model = trainer.task, trainer.step.model
    trained = Trained(model, task.tokenizer, task.classes, task.kind)
    text: str = answer(trained, [_prompt(task)], SAMPLE_LENGTH, Sampling())[0]["output"]
    return text


def _further(trainer: Trainer, evaluation: Evaluation) -> str:
    """The command with which a run goes on that ended too soon, or ""."""
    made, records = trainer.step.step_number, metrics.read(trainer.run.metrics_path)
    return suggest_more_steps(trainer.run, records, evaluation, made) if made == trainer.options.steps > 0 else ""


def _as_text(
    trainer: Trainer, evaluation: Evaluation, pictures: list[str], sample: str | None, report: str | None
) -> str:
    written = [] if sample is None else ["a sample:", *(f"  {line}" for line in sample.split("\n"))]
    *others, last = measures(evaluation.measures, tokens="token accuracy")
    told = [
        ", ".join([f"held-out loss {evaluation.loss:.4f}", *others]),
        f"held-out {last} ({evaluation.count} sequences)",
        f"pictures: {' '.join(pictures)}",
        *([] if report is None else [f"report: {report}"]),
    ]
    if further := _further(trainer, evaluation):
        told.append(f"the held-out loss was still falling; to let the run go on: {further}")
    text = _prompt(trainer.task)
    again = shell_words("npformer", "decode", trainer.run.path, *["--"] * text.startswith("-"), text)
    lines = [*map(visible, written), *(folded(visible(line), sys.stdout) for line in told), f"try: {again}"]
    return "\n".join([*held_out_lines(trainer.step.model, trainer.task, evaluation), *lines])


def _as_json(
    trainer: Trainer, evaluation: Evaluation, pictures: list[str], sample: str | None, report: str | None
) -> str:
    return json.dumps(
        {
            "run": str(trainer.run.path),
            "step": trainer.step.step_number,
            "backend": str(trainer.step.model.backend),
            "loss": finite(evaluation.loss),
            **{name: finite(value) for name, value in evaluation.measures.items()},
            "sequences": evaluation.count,
            "pictures": pictures,
            "report": report,
            "still_falling": _further(trainer, evaluation) or None,
        }
        | ({} if sample is None else {"sample": sample})
    )


def held_out_lines(model: Model, task: Task, evaluation: Evaluation) -> list[str]:
    """The first held-out examples with the model's outputs, as lines; none for a model that continues texts."""
    if evaluation.kind == "causal":
        return []
    examples = task.held_out(evaluation.count)[:SHOWN]
    if evaluation.kind == "masked":
        rows = _filled(model, task, examples)
        lines = (example_line(visible(one.source), visible(output), visible(one.target)) for one, output in rows)
        return [f"held-out examples, {MASK} filled in:", *lines]
    rows = list(zip(examples, evaluation.outputs, strict=False))
    shown = [[_cut(visible(text)) for text in (one.source, output, one.target)] for one, output in rows]
    width = max(len(source) for source, _, _ in shown)
    return ["held-out examples, decoded:", *(example_line(*texts, width=width) for texts in shown)]


def example_line(source: str, output: str, target: str, *, width: int = 0) -> str:
    """One example; width: columns of the source."""
    if output == target:
        return f"  {source:<{width}} → {paint(output, GREEN)}"
    return f"  {source:<{width}} → {paint(output, RED)}   (expected {target})"


def _cut(text: str) -> str:
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"


def _filled(model: Model, task: Task, examples: list[Example]) -> list[tuple[Example, str]]:
    """For each text with a [MASK]: the words around one, what the model writes there, and what was there."""
    batch = task.collate(examples)
    inputs, targets = batch[0], batch[-1]
    assert isinstance(model, Encoder)
    guesses, pieces = likeliest(model.backend.host(model(inputs))), task.vocabulary.pieces
    whole = np.where(targets != PAD_ID, targets, inputs)  # the texts before a piece was hidden
    rows = []
    for row in range(len(inputs)):
        hidden = np.flatnonzero((inputs[row] == task.vocabulary.id_of(MASK)) & (targets[row] != PAD_ID))
        if hidden.size:
            at = int(hidden[np.abs(hidden - np.count_nonzero(inputs[row] != PAD_ID) // 2).argmin()])
            words = [pieces[i] for i in whole[row] if i != PAD_ID]
            text = [*words[max(0, at - _AROUND) : at], MASK, *words[at + 1 : at + 1 + _AROUND]]
            rows.append((Example(task.tokenizer.join(text), words[at]), pieces[guesses[row, at]]))
    return rows


def options_from_args(args: argparse.Namespace, in_slots: bool = False) -> dict[str, dict[str, Any]]:
    """All options given, by section: the file's, then --set, then the short spellings.

    in_slots: for several processes, which need slots.
    """
    sections: dict[str, dict[str, Any]] = read_toml(args.config, SECTIONS) if args.config else changes_of(())
    for section, options in changes_of([*args.set, *_spelled(args, *SHORT)], args.task).items():
        sections[section] |= options
    if in_slots:
        sections["training"].setdefault("slots", SLOTS)
    _make_absolute(sections)
    if "task" not in sections["run"]:
        raise ConfigError(f"task: expected one of {', '.join(TASKS)} (or --resume RUN), got none")
    return sections


def changes_on_resume(args: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """The options of --set and --log-to. Raises ConfigError for others beside --resume, which a run keeps."""
    if clash := [SPELLED.get(name, f"--{name}") for name in (*SHORT, "config", "out")
                 if name != "log_to" and getattr(args, name) is not None]:  # fmt: skip
        raise ConfigError(
            f"--resume: expected no other options, since a run keeps its options, got {', '.join(clash)}; "
            f"leave them out: {shell_words('npformer', 'train', '--resume', args.resume)}; change single options by "
            "--set section.key=value, or start a new run"
        )
    return changes_of([*args.set, *_spelled(args, "log_to")])


def _spelled(args: argparse.Namespace, *names: str) -> list[str]:
    return [f"{SHORT[name]}={getattr(args, name)}" for name in names if getattr(args, name) is not None]


def changes_of(assignments: Sequence[str], task: str | None = None) -> dict[str, dict[str, Any]]:
    """The options of --set, by section; those of a model are the task's, if it is given."""
    known = SECTIONS | {"model": model_options(task)}
    sections: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
    for assignment in assignments:
        section, key, value = parse_assignment(assignment, known)
        sections[section][key] = value
    _make_absolute(sections)
    return sections


def _make_absolute(sections: dict[str, dict[str, Any]]) -> None:
    """Make paths absolute, so that the run can be resumed or repeated from any folder."""
    for section, name in (("data", "file"), ("run", "init_from")):
        if sections[section].get(name) is not None:
            sections[section][name] = os.path.abspath(sections[section][name])


def options_text(task: str | None, as_json: bool) -> str:
    """The options of a task, or of all tasks."""
    rows = option_rows(task)
    if as_json:
        return json.dumps({"task": task, "options": [row._asdict() for row in rows]})
    name, default, kind = (
        max(map(len, cells)) for cells in zip(*((row.name, row.default, row.kind) for row in rows), strict=True)
    )
    lines: list[str] = []
    for section in SECTIONS:
        lines += ["", f"[{section}]"] if lines else [f"[{section}]"]
        lines += [
            f"  {row.name:<{name}}  {row.default:<{default}}  {row.kind:<{kind}}  {row.meaning}"
            for row in rows if row.section == section
        ]  # fmt: skip
    return "\n".join([*lines, "", fill("Set an option by --set NAME=VALUE, several by --config FILE (TOML).")])
