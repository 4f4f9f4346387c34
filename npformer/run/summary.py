"""All that a report of a run tells: read from its folder, or taken from a training that has just ended.

Nothing of a run is changed. Held-out examples are decoded from its latest checkpoint. They need the run's data, which
may be elsewhere by now: a summary then has no examples and says why.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from npformer.data import Task
from npformer.errors import DataError, NpformerError
from npformer.io.notebook import Displayed
from npformer.io.printable import shell_words, visible
from npformer.models import Model
from npformer.run import metrics
from npformer.run.assemble import task_of
from npformer.run.checkpoint import Checkpoint
from npformer.run.config_file import read_toml
from npformer.run.directory import RunDirectory
from npformer.run.options import SECTIONS, Options, complete
from npformer.run.predictions import AttentionExample, Predicted, predictions_on, task_attention_example
from npformer.run.trained import load_latest, read_trained
from npformer.training.evaluation import Evaluation, evaluate_task

#: Points of the drawn learning rate.
RATES = 240


@dataclass(frozen=True, repr=False)
class RunSummary(Displayed):
    """A run in plain values. A notebook shows it as the page that ``npformer report`` writes."""

    run: RunDirectory
    options: Options
    environment: Mapping[str, str]  # as its last checkpoint tells
    records: list[dict[str, Any]]  # of metrics.jsonl
    step: int  # of the checkpoint
    parameters: int
    evaluation: Evaluation | None  # None: without the data
    predictions: list[Predicted]
    attention: AttentionExample | None  # None: without the data, or of an attention without weights
    note: str = ""  # what is missing, and why

    @property
    def name(self) -> str:
        """The name of the run's folder."""
        return self.run.path.resolve().name

    @property
    def kind(self) -> str:
        """The kind of its task; "" without an evaluation."""
        return "" if self.evaluation is None else self.evaluation.kind

    @property
    def warmup(self) -> int:
        """The steps in which the learning rate rises."""
        training = self.options.training
        return 0 if training.schedule == "constant" else training.warmup_steps

    @property
    def repeat(self) -> str:
        """The command that trains it again, with the same config.toml."""
        return shell_words("npformer", "train", "--config", self.run.config_path)

    def __str__(self) -> str:
        loss = "" if self.evaluation is None else f", held-out loss {self.evaluation.loss:.4f}"
        steps = f"step {self.step:,} of {self.options.training.steps:,}"
        return f"<run {visible(self.name)}: {self.options.run.task}, {self.parameters:,} parameters, {steps}{loss}>"

    def rates(self) -> tuple[list[float], list[float]]:
        """The learning rate that the options give: steps and rates, up to the checkpoint's step."""
        training, last = self.options.training, max(self.step, 1)
        rate = training.make_schedule(self.options.model.d_model)
        turn = min(max(1, self.warmup), last)
        steps = sorted({1 + round(i * (last - 1) / RATES) for i in range(RATES + 1)} | {turn})
        return [float(step) for step in steps], [rate(step) for step in steps]


def read_run(path: Path | str, examples: int | None = None) -> RunSummary:
    """The run in a folder of ``npformer train``: options, metrics, held-out examples, attention; a report in notebooks.

    examples: how many to decode; None: as many as the run's last evaluation.
    Raises OutputError if there is no run, and what ``summary_of`` raises if one of its files is missing or damaged.
    """
    return summary_of(RunDirectory.open(Path(path)), examples)


def summary_of(run: RunDirectory, count: int | None = None) -> RunSummary:
    """The summary of the run in a folder; count: held-out examples, by default as many as its last evaluation.

    Raises CheckpointError, ConfigError, DataError or TokenError if a file of the run is missing or damaged.
    """
    sections = read_toml(run.config_path, SECTIONS)
    trained = read_trained(run)
    records = metrics.read(run.metrics_path)
    if not records:
        raise DataError(
            f"{run.metrics_path}: expected the metrics of the run, found none: put the file back, or let the run "
            f"go on: npformer train --resume {shell_words(run.path)}"
        )
    size, classes = len(trained.tokenizer.vocabulary), len(trained.classes)
    options = complete(sections, size, int(sections["model"].get("max_seq_len", 1)), classes)
    checkpoint = load_latest(run)
    task, note = None, ""
    try:
        task, *_ = task_of(options.run, options.data, checkpoint, None)
    except (NpformerError, ImportError) as error:
        note = f"Without examples and attention, which need the run's data. {error}"
    evaluation = None if task is None else evaluate_task(trained.model, task, count or options.training.final_examples)
    return summarise(run, options, trained.model, checkpoint, task, evaluation, note)


def summarise(
    run: RunDirectory, options: Options, model: Model, checkpoint: Checkpoint, task: Task | None,
    evaluation: Evaluation | None, note: str = "",
) -> RunSummary:  # fmt: skip
    """The summary of a run, with the model of this checkpoint, and what its evaluation found."""
    environment = checkpoint.state.get("versions")
    predictions = []
    attention = None
    if task is not None and evaluation is not None:
        examples = task.held_out(evaluation.count)
        predictions = predictions_on(model, task, examples, evaluation)
        attention = task_attention_example(model, task, examples, evaluation.outputs)
    return RunSummary(
        run, options, environment if isinstance(environment, dict) else {},
        metrics.read(run.metrics_path), checkpoint.step, model.num_parameters(), evaluation, predictions,
        attention if attention is not None and attention.weights else None, note,
    )  # fmt: skip


def flat(options: Options) -> dict[str, Any]:
    """section.key -> value, of all options."""
    return {
        f"{section}.{field.name}": getattr(values, field.name)
        for section, values in options.sections().items()
        for field in dataclasses.fields(values)
        if field.init
    }
