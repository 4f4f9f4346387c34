"""The options of a training run, in four sections, as in config.toml.

[run]       task, seed, device, dtype, kernels, precision
[data]      the file, or the options of generated data
[model]     the configuration of the task's model
[training]  steps, batches, the optimiser, how often to log, evaluate and save
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_type_hints

from npformer.errors import ConfigError, whole_number
from npformer.models.config import ModelConfig
from npformer.optim import Constant, Noam, Schedule, WarmupCosine
from npformer.run.config_file import FOLLOW, NONE, bare_kind, in_shell, kinds_of, meanings_of, write_toml
from npformer.run.tasks import ANSWERS, TASKS, Sections, with_defaults

TaskName = Literal["copy", "reverse", "sort", "pairs", "dates", "numbers", "scan", "language", "tags", "mlm", "lm"]


TokenizerName = Literal["characters", "words"]

MOST = 2**31 - 1  # the largest count of anything

#: Options that follow from the data, and so have no default.
OF_DATA = ("max_seq_len",)
FROM_DATA, BY_TASK = "from the data", "by task"
FEW = 6  # names that a table of options lists

#: The fewest lines of the log and evaluations of a run, unless it is told how often.
LOG_LINES, EVALUATIONS = 30, 5


class Every(NamedTuple):
    """Steps between lines of the log, between evaluations, and between checkpoints."""

    log: int
    evaluate: int
    save: int


@dataclass(frozen=True)
class RunOptions:
    """The task, the device and the precision. Raises ConfigError for a seed out of range."""

    task: Annotated[TaskName, "what is learnt; npformer train --help names the tasks"] = "reverse"
    seed: Annotated[int, "seed of parameters, order of data and dropout"] = 0
    device: Annotated[Literal["auto", "numpy", "cupy"], "where to compute; auto: cupy with a usable GPU"] = "auto"
    dtype: Annotated[Literal["float32", "float64"], "numbers of parameters and activations"] = "float32"
    kernels: Annotated[
        Literal["auto", "plain", "numpy", "numba", "cuda"], "what computes; auto: the fastest installed"
    ] = "auto"
    precision: Annotated[Literal["float32", "tf32"], "of products on a GPU; tf32 is mixed precision"] = "float32"
    init_from: Annotated[str | None, "fine-tuning: the run, checkpoint or file that the first weights come from"] = None
    log_to: Annotated[str | None, "further places for the metrics, with commas: csv, tensorboard"] = None

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 2**64:
            raise ConfigError(f"run.seed: expected an integer with 0 <= seed < 2**64, got {self.seed}")


@dataclass(frozen=True)
class DataOptions:
    """The data. ``Entry.data`` names the options that a task uses."""

    file: Annotated[str | None, "your own UTF-8 file: a text for lm, lines of source, tab, target for pairs"] = None
    held_out_fraction: Annotated[float, "share of the file that is evaluated on and never trained on"] = 0.1
    tokenizer: Annotated[TokenizerName, "pieces of the text; words that are rare are spelled in characters"] = (
        "characters"
    )
    max_pieces: Annotated[int, "with tokenizer words: pieces of the vocabulary, at most"] = 4000
    symbols: Annotated[int, "different letters in a word"] = 26
    min_length: Annotated[int, "letters of the shortest word"] = 1
    max_length: Annotated[int, "letters of the longest word; for lm and mlm, tokens of a window"] = 12
    split: Annotated[Literal["simple", "length", "jump"], "which commands of SCAN are held out"] = "simple"
    count: Annotated[int | None, "phrases, numbers or days to make; none: the task's own number"] = None


@dataclass(frozen=True)
class TrainingOptions:
    """Steps, batches and the optimiser. Raises ConfigError for values out of range."""

    steps: Annotated[int, "training steps in all"] = 1000
    batch_size: Annotated[int, "sequences of a step"] = 64
    optimizer: Annotated[Literal["adam", "adamw"], "how gradients become updates"] = "adam"
    learning_rate: Annotated[float, "the highest rate; for noam, the factor"] = 2e-3
    schedule: Annotated[
        Literal["constant", "noam", "warmup_cosine"], "learning-rate schedule; warmup_cosine ends at 0 at the last step"
    ] = "warmup_cosine"
    warmup_steps: Annotated[int, "warm-up: steps in which the rate rises; by default at most a fifth of steps"] = 200
    beta1: Annotated[float, "Adam's decay of the mean of gradients"] = 0.9
    beta2: Annotated[float, "Adam's decay of the mean of their squares"] = 0.98
    eps: Annotated[float, "Adam's addend to the root of the second mean"] = 1e-9
    weight_decay: Annotated[float, "of adamw: share of a weight, times the rate, that each step removes"] = 0.01
    clip_norm: Annotated[float | None, "gradient clipping: longer ones are scaled to this norm; none: never"] = 1.0
    label_smoothing: Annotated[float, "probability that the target gives to all pieces alike"] = 0.0
    accumulate: Annotated[int, "gradient accumulation: parts of a batch, computed one after the other"] = 1
    slots: Annotated[int, "ranges of rows of a batch, a power of two, which processes share; they decide its bits"] = 1
    log_every: Annotated[int | None, "steps between lines of the log; none: a round number, at most steps/30"] = None
    eval_every: Annotated[int | None, "steps between evaluations; none: a round number, at most steps/5"] = None
    eval_examples: Annotated[int, "held-out examples of an evaluation"] = 200
    final_examples: Annotated[int, "held-out examples of the last evaluation"] = 1000
    save_every: Annotated[int | None, "steps between checkpoints; none: as eval_every"] = None
    keep_last: Annotated[int, "checkpoints to keep, besides the best"] = 2
    patience: Annotated[
        int | None, "early stopping: evaluations without a lower loss after which the run ends; none: never"
    ] = None

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "accumulate", "slots", "log_every", "eval_every", "eval_examples",
                     "final_examples", "save_every", "keep_last", "patience"):  # fmt: skip
            if (value := getattr(self, name)) is not None:  # no step at all, where the weights are another run's
                whole_number(f"training.{name}", value, at_least=0 if name == "steps" else 1, at_most=MOST)
        for name in ("learning_rate", "eps", "clip_norm"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:  # nan fails both comparisons
                off = '; "none" turns it off' if name == "clip_norm" else ""
                raise ConfigError(f"training.{name}: expected a finite number > 0, got {value}{off}")
        if not 0 <= self.weight_decay < math.inf:
            raise ConfigError(f"training.weight_decay: expected a finite number >= 0, got {self.weight_decay}")
        if not 0 <= self.warmup_steps <= self.steps:
            raise ConfigError(
                f"training.warmup_steps: expected 0 <= warmup_steps <= steps={self.steps}, got {self.warmup_steps}; "
                f"--set warmup_steps={self.steps // 5}{', a fifth,' * (self.steps > 4)} is usual"
            )
        if self.schedule == "noam" and self.warmup_steps < 1:
            raise ConfigError("training.warmup_steps: expected an integer >= 1 for the schedule noam, got 0")

    @property
    def every(self) -> Every:
        """How often to log, to evaluate and to save: what was set, or what follows from the steps."""
        evaluate = self.eval_every or _round_share(self.steps, EVALUATIONS)
        return Every(self.log_every or _round_share(self.steps, LOG_LINES), evaluate, self.save_every or evaluate)

    def make_schedule(self, d_model: int) -> Schedule:
        """The learning rate as a function of the step."""
        if self.schedule == "noam":
            return Noam(d_model, self.warmup_steps, self.learning_rate)
        if self.schedule == "constant":
            return Constant(self.learning_rate)
        return WarmupCosine(self.learning_rate, self.warmup_steps, self.steps)


def _round_share(steps: int, parts: int) -> int:
    """The largest of 1, 2, 5, 10, 20, 50, … that goes into the steps at least so many times; 1 if none does."""
    share = max(1, steps // parts)
    ten = int(10 ** (len(str(share)) - 1))
    return max(number * ten for number in (1, 2, 5) if number * ten <= share)


def model_options(task: str | None = None) -> type:
    """A dataclass with the options of a task's model; without a task, of all models."""
    answers = ANSWERS.values() if task is None else [ANSWERS[TASKS[task].kind]]
    kinds = [get_type_hints(answer.config, include_extras=True) for answer in answers]
    known = {option: kind for hints in kinds for option, kind in hints.items() if option not in FOLLOW}
    return dataclasses.make_dataclass("ModelOptions", [(name, kind, None) for name, kind in known.items()])


SECTIONS: dict[str, type] = {
    "run": RunOptions,
    "data": DataOptions,
    "model": model_options(),
    "training": TrainingOptions,
}


@dataclass(frozen=True)
class Options:
    """All four sections together."""

    run: RunOptions
    data: DataOptions
    model: ModelConfig
    training: TrainingOptions

    def sections(self) -> dict[str, Any]:
        """Section name -> dataclass, as config.toml holds them."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def text(self) -> str:
        """The text of config.toml: what a hand may set for this task."""
        others = {option.name for option in dataclasses.fields(DataOptions)}.difference(TASKS[self.run.task].data)
        return write_toml(self.sections(), {*FOLLOW, *others})


def complete(sections: Sections, vocab_size: int, max_length: int, num_classes: int = 0) -> Options:
    """Fill in missing options; the model's sizes follow from the data, the warm-up from the steps.

    sections: section -> key -> value. Raises ConfigError if the model that the task uses has no such option.
    """
    chosen, sections = sections, with_defaults(sections)
    run = RunOptions(**sections["run"])
    model = sections["model"]
    model = {"max_seq_len": max_length} | model | _follows(run.task, vocab_size, num_classes)
    config = ANSWERS[TASKS[run.task].kind].config
    fields = {option.name for option in dataclasses.fields(config)}.difference(FOLLOW)
    if unknown := [name for name in sections["model"] if name not in fields]:
        raise ConfigError(
            f"model.{unknown[0]}: expected an option of the model for the task {run.task}, a "
            f"{config.__name__.removesuffix('Config')}; it has {', '.join(sorted(fields))}"
        )
    if model.get("positions") == "learned" and model["max_seq_len"] < max_length:
        raise ConfigError(
            f"model.max_seq_len: expected at least {max_length}, the longest sequence of the data, "
            f"got {model['max_seq_len']}; raise it, or use sinusoidal positions"
        )
    training = sections["training"]
    steps = training.get("steps", TrainingOptions.steps)
    if steps == 0 and run.init_from is None:
        raise ConfigError("training.steps: expected an integer >= 1, got 0")
    most = max(min(1, steps), steps // 5)  # so that a short run needs no second option
    warmup = {"warmup_steps": min(training.get("warmup_steps", TrainingOptions.warmup_steps), most)}
    training = training | warmup | dict(chosen["training"])
    return Options(run, DataOptions(**sections["data"]), config(**model), TrainingOptions(**training))


def _follows(task: str, vocab_size: int, num_classes: int) -> dict[str, Any]:
    """The model options that follow from the task and its data."""
    head = ANSWERS[TASKS[task].kind].head
    sizes = ("src_vocab_size", "tgt_vocab_size") if TASKS[task].kind == "translate" else ("vocab_size",)
    classes = {"num_classes": num_classes} if head in ("sequence", "tokens") else {}
    return dict.fromkeys(sizes, vocab_size) | ({} if head is None else {"head": head}) | classes


class OptionRow(NamedTuple):
    """An option. default: as in a shell, or where it comes from."""

    section: str
    name: str
    kind: str
    default: str
    meaning: str


def option_rows(task: str | None = None) -> list[OptionRow]:
    """The options of a task, with its defaults; without a task, those of all tasks, "by task" where defaults differ.

    A default of none that follows from the steps of the task stands behind it: "none (10)".
    """
    if task is not None:
        follows = defaults_of(task).training.every
        resolved = {"log_every": follows.log, "eval_every": follows.evaluate, "save_every": follows.save}
        return [
            row._replace(default=f"{row.default} ({resolved[row.name]})") if row.name in resolved else row
            for row in _rows(task)
        ]
    every = [row for name in TASKS for row in _rows(name)]
    rows = []
    for section, options in SECTIONS.items():
        for name in kinds_of(options):
            one, *others = {row for row in every if (row.section, row.name) == (section, name)}
            rows.append(one._replace(default=BY_TASK) if others else one)
    return rows


def _rows(task: str) -> list[OptionRow]:
    sections = defaults_of(task).sections()
    rows = []
    for section, options in sections.items():
        meanings = meanings_of(type(options))
        for name, kind in kinds_of(type(options)).items():
            if name not in FOLLOW and (section != "data" or name in TASKS[task].data):
                value = getattr(options, name)
                default = f"{value:g}" if isinstance(value, float) else in_shell(value)
                default = FROM_DATA if name in OF_DATA else default
                rows.append(OptionRow(section, name, kind_in_words(kind), default, meanings[name]))
    return rows


def defaults_of(task: str) -> Options:
    """The options of a run of a task to which none was given; sizes that follow from the data are those of any data."""
    classes = 2 if ANSWERS[TASKS[task].kind].head in ("sequence", "tokens") else 0
    return complete({section: {"task": task} if section == "run" else {} for section in SECTIONS}, 2, 2, classes)


def kind_in_words(kind: Any) -> str:
    """An annotation in the words of a table: its values, or "whole number", "number", "text", "true, false"."""
    bare, is_optional = bare_kind(kind)
    values = get_args(bare)
    if values:
        words = ", ".join(values) if len(values) <= FEW else f"one of {len(values)} names"
    else:
        words = {bool: "true, false", int: "whole number", float: "number", str: "text"}[bare]
    return f"{words} or {NONE}" if is_optional else words
