"""The options of a training run, in four sections, as they stand in config.toml.

[run]       task, seed, device, dtype, bodies, precision
[data]      the file, or what is generated
[model]     the TransformerConfig
[training]  steps, batches, the optimiser, how often to log, evaluate and save
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from npformer.errors import ConfigError
from npformer.models import TransformerConfig
from npformer.optim import Constant, Noam, Schedule, WarmupCosine

TaskName = Literal["copy", "reverse", "sort", "pairs"]


@dataclass(frozen=True)
class RunOptions:
    """What is trained, and where."""

    task: TaskName = "reverse"
    seed: int = 0
    device: Literal["auto", "numpy", "cupy"] = "auto"
    dtype: Literal["float32", "float64"] = "float32"
    bodies: Literal["auto", "plain", "numpy", "compiled", "cuda"] = "auto"  # what computes
    precision: Literal["float32", "tf32", "bfloat16"] = "float32"  # of products of float32, on a GPU


@dataclass(frozen=True)
class DataOptions:
    """What it is trained on: symbols and lengths for copy, reverse and sort, a file for pairs."""

    file: str | None = None  # UTF-8, lines of source<TAB>target
    held_out_fraction: float = 0.1  # of the file's sources
    symbols: int = 26
    min_length: int = 1
    max_length: int = 12


@dataclass(frozen=True)
class TrainingOptions:
    """How it is trained. Raises ConfigError for values that make no sense."""

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
    final_examples: int = 1000  # and at the end
    save_every: int = 250  # steps
    keep_last: int = 2  # checkpoints, besides the best

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "accumulate", "log_every", "eval_every", "eval_examples",
                     "final_examples", "save_every", "keep_last"):  # fmt: skip
            if getattr(self, name) < 1:
                raise ConfigError(f"training.{name}: expected an integer >= 1, got {getattr(self, name)}")
        for name in ("learning_rate", "eps", "clip_norm"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:  # nan is neither
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


SECTIONS: dict[str, type] = {
    "run": RunOptions,
    "data": DataOptions,
    "model": TransformerConfig,
    "training": TrainingOptions,
}

#: A model that two CPU cores train in a minute; TransformerConfig's own defaults are the paper's.
SMALL_MODEL = {
    "d_model": 64, "num_heads": 4, "num_encoder_layers": 2, "num_decoder_layers": 2, "d_ff": 256, "dropout": 0.0,
}  # fmt: skip


@dataclass(frozen=True)
class Options:
    """All four sections together."""

    run: RunOptions
    data: DataOptions
    model: TransformerConfig
    training: TrainingOptions

    def sections(self) -> dict[str, Any]:
        """Section name -> dataclass, as config.toml holds them."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}


def complete(given: Mapping[str, Mapping[str, Any]], vocab_size: int, max_length: int) -> Options:
    """Fill in what was not given; the model's sizes follow from the data, the warm-up from the steps.

    given: section -> key -> value. Raises ConfigError where given sizes contradict the data.
    """
    model = SMALL_MODEL | {"max_seq_len": max_length} | dict(given["model"])
    for name in ("src_vocab_size", "tgt_vocab_size"):
        if model.setdefault(name, vocab_size) != vocab_size:
            raise ConfigError(
                f"model.{name}: expected {vocab_size}, the size of the data's vocabulary, got {model[name]}; "
                "leave it out, it follows from the data"
            )
    if model.get("pad_id", 0) != 0:
        raise ConfigError(f"model.pad_id: expected 0, the [PAD] of every vocabulary, got {model['pad_id']}")
    if model.get("positions") == "learned" and model["max_seq_len"] < max_length:
        raise ConfigError(
            f"model.max_seq_len: expected at least {max_length}, the longest sequence of the data, "
            f"got {model['max_seq_len']}; raise it, or use sinusoidal positions"
        )
    return Options(
        RunOptions(**given["run"]),
        DataOptions(**given["data"]),
        TransformerConfig(**model),
        TrainingOptions(**(_warmup(given["training"]) | dict(given["training"]))),
    )


def _warmup(training: Mapping[str, Any]) -> dict[str, int]:
    """A fifth of the steps if the default is more: a short run must not need a second option to begin."""
    steps = training.get("steps", TrainingOptions.steps)
    return {"warmup_steps": min(TrainingOptions.warmup_steps, max(1, steps // 5))}
