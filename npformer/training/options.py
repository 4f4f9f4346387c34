"""The options of a training run, in four sections, as in config.toml.

[run]       task, seed, device, dtype, kernels, precision
[data]      the file, or the options of generated data
[model]     the configuration of the task's model
[training]  steps, batches, the optimiser, how often to log, evaluate and save
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_type_hints

from npformer.errors import ConfigError
from npformer.models.config import ModelConfig
from npformer.optim import Constant, Noam, Schedule, WarmupCosine
from npformer.training.tasks import ANSWERS, TASKS, Sections, with_defaults

TaskName = Literal[
    "copy", "reverse", "sort", "pairs", "dates", "numbers", "scan", "language", "tags", "mlm", "lm"
]  # fmt: skip


MOST = 2**31 - 1  # the largest count of anything


@dataclass(frozen=True)
class RunOptions:
    """The task, the device and the precision. Raises ConfigError for a seed out of range."""

    task: TaskName = "reverse"
    seed: int = 0
    device: Literal["auto", "numpy", "cupy"] = "auto"
    dtype: Literal["float32", "float64"] = "float32"
    kernels: Literal["auto", "plain", "numpy", "numba", "cuda"] = "auto"  # what computes
    precision: Literal["float32", "tf32", "bfloat16"] = "float32"  # precision of float32 products, on a GPU

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 2**64:
            raise ConfigError(f"run.seed: expected an integer with 0 <= seed < 2**64, got {self.seed}")


@dataclass(frozen=True)
class DataOptions:
    """The data: symbols and lengths for copy, reverse and sort, a file for pairs, and so on."""

    file: str | None = None  # UTF-8, lines of source<TAB>target
    held_out_fraction: float = 0.1  # of the file's sources
    symbols: int = 26
    min_length: int = 1
    max_length: int = 12  # letters of a word; for lm and mlm, tokens of a window
    split: Literal["simple", "length", "jump"] = "simple"  # of scan
    count: int | None = None  # phrases or numbers, days for language; none: the task's default


@dataclass(frozen=True)
class TrainingOptions:
    """Steps, batches and the optimiser. Raises ConfigError for values out of range."""

    steps: int = 1000
    batch_size: int = 64
    optimizer: Literal["adam", "adamw"] = "adam"
    learning_rate: float = 2e-3  # the peak; for noam, the factor
    schedule: Literal["constant", "noam", "warmup_cosine"] = "warmup_cosine"
    warmup_steps: int = 200
    beta1: float = 0.9
    beta2: float = 0.98
    eps: float = 1e-9
    weight_decay: float = 0.01  # of adamw
    clip_norm: float | None = 1.0
    label_smoothing: float = 0.0
    accumulate: int = 1  # micro-batches per step
    log_every: int = 50  # steps
    eval_every: int = 250  # steps
    eval_examples: int = 200  # held-out examples decoded at each evaluation
    final_examples: int = 1000  # held-out examples decoded at the end
    save_every: int = 250  # steps
    keep_last: int = 2  # checkpoints to keep, besides the best

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "accumulate", "log_every", "eval_every", "eval_examples",
                     "final_examples", "save_every", "keep_last"):  # fmt: skip
            value = getattr(self, name)
            if not 1 <= value <= MOST:
                bound = ">= 1" if value < 1 else f"<= {MOST}"
                raise ConfigError(f"training.{name}: expected an integer {bound}, got {value}")
        for name in ("learning_rate", "eps", "clip_norm"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:  # nan fails both comparisons
                raise ConfigError(f"training.{name}: expected a finite number > 0, got {value}")
        if not 0 <= self.weight_decay < math.inf:
            raise ConfigError(f"training.weight_decay: expected a finite number >= 0, got {self.weight_decay}")
        if not 0 <= self.warmup_steps <= self.steps:
            raise ConfigError(
                f"training.warmup_steps: expected 0 <= warmup_steps <= steps={self.steps}, got {self.warmup_steps}"
            )
        if self.schedule == "noam" and self.warmup_steps < 1:
            raise ConfigError("training.warmup_steps: expected an integer >= 1 for the schedule noam, got 0")

    def make_schedule(self, d_model: int) -> Schedule:
        """The learning rate as a function of the step."""
        if self.schedule == "noam":
            return Noam(d_model, self.warmup_steps, self.learning_rate)
        if self.schedule == "constant":
            return Constant(self.learning_rate)
        return WarmupCosine(self.learning_rate, self.warmup_steps, self.steps)


def _model_options() -> type:
    """A dataclass with the options of all models. The task determines a run's model, and so its options."""
    kinds = [get_type_hints(answer.config) for answer in ANSWERS.values()]
    known = {option: kind for hints in kinds for option, kind in hints.items()}
    return dataclasses.make_dataclass("ModelOptions", [(name, kind, None) for name, kind in known.items()])


SECTIONS: dict[str, type] = {
    "run": RunOptions,
    "data": DataOptions,
    "model": _model_options(),
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


def complete(given: Sections, vocab_size: int, max_length: int, num_classes: int = 0) -> Options:
    """Fill in missing options; the model's sizes follow from the data, the warm-up from the steps.

    given: section -> key -> value. Raises ConfigError where given sizes contradict the data, or the model that
    the task uses has no such option.
    """
    chosen, given = given, with_defaults(given)
    run = RunOptions(**given["run"])
    model = {"max_seq_len": max_length} | given["model"] | _follows(run.task, given["model"], vocab_size, num_classes)
    config = ANSWERS[TASKS[run.task].kind].config
    fields = {option.name for option in dataclasses.fields(config)}
    if unknown := [name for name in model if name not in fields]:
        raise ConfigError(
            f"model.{unknown[0]}: expected an option of the model for the task {run.task}, a "
            f"{config.__name__.removesuffix('Config')}; it has {', '.join(sorted(fields))}"
        )
    if model.get("pad_id", 0) != 0:
        raise ConfigError(f"model.pad_id: expected 0, the [PAD] of every vocabulary, got {model['pad_id']}")
    if model.get("positions") == "learned" and model["max_seq_len"] < max_length:
        raise ConfigError(
            f"model.max_seq_len: expected at least {max_length}, the longest sequence of the data, "
            f"got {model['max_seq_len']}; raise it, or use sinusoidal positions"
        )
    training = given["training"] | _warmup(given["training"]) | dict(chosen["training"])
    return Options(run, DataOptions(**given["data"]), config(**model), TrainingOptions(**training))


def _follows(task: str, model: Mapping[str, Any], vocab_size: int, num_classes: int) -> dict[str, Any]:
    """The model options that follow from the data. Raises ConfigError if other values were given."""
    answer = ANSWERS[TASKS[task].kind]
    vocabulary = (vocab_size, "the size of the data's vocabulary")
    translates = TASKS[task].kind == "translate"
    sizes = ("src_vocab_size", "tgt_vocab_size") if translates else ("vocab_size",)
    found: dict[str, tuple[Any, str]] = dict.fromkeys(sizes, vocabulary)
    if answer.head is not None:
        found["head"] = (answer.head, f"the one for the task {task}")
    if answer.head in ("sequence", "tokens"):
        found["num_classes"] = (num_classes, "the number of the data's classes, [PAD] counted")
    for name, (value, meaning) in found.items():
        if model.get(name, value) != value:
            raise ConfigError(
                f"model.{name}: expected {value}, {meaning}, got {model[name]}; leave it out, it follows from the data"
            )
    return {name: value for name, (value, _) in found.items()}


def _warmup(training: Mapping[str, Any]) -> dict[str, int]:
    """The default warm-up, but at most a fifth of the steps, so that a short run needs no second option."""
    steps = training.get("steps", TrainingOptions.steps)
    return {"warmup_steps": min(training.get("warmup_steps", TrainingOptions.warmup_steps), max(1, steps // 5))}
