"""A run that starts from the weights of another, on other data: ``npformer train TASK --from RUN``.

The model is that of the source. Its vocabulary comes first in the new one, so that every id and every row is as it was;
pieces that only the new data have follow, and their rows are drawn anew. So it is with classes. The optimiser begins
anew. The lists of the source are kept in the run's checkpoints, so a resumed run does not need the source.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from npformer.data import Task, Vocabulary
from npformer.data.own_text import TOKENIZERS
from npformer.errors import CheckpointError, ConfigError
from npformer.models import Model
from npformer.run.checkpoint import latest_checkpoint
from npformer.run.config_file import read_toml
from npformer.run.model_arrays import model_arrays, set_arrays
from npformer.run.model_file import load_trained
from npformer.run.option_table import OF_DATA
from npformer.run.option_types import in_shell
from npformer.run.options import SECTIONS, RunOptions
from npformer.run.tasks import TASKS, Sections, tokenizer_of
from npformer.run.trained import Trained, run_of

#: Options of a model that change no meaning of its weights.
FREE = ("dropout", "recompute")
NAMED = 20  # the most new pieces of a message


class Base(NamedTuple):
    """The lists of the source, with which those of the new run begin."""

    pieces: tuple[str, ...]
    classes: tuple[str, ...]

    def extend(self, task: Any) -> None:
        """Give the task a vocabulary and classes that begin with these."""
        pieces = tuple(dict.fromkeys((*self.pieces, *task.vocabulary.pieces)))
        classes = tuple(dict.fromkeys((*self.classes, *task.classes)))
        task.retokenize(type(task.tokenizer)(Vocabulary(pieces)), classes)

    def identity(self) -> dict[str, list[str]]:
        """As a checkpoint keeps it."""
        return {"pieces": [*self.pieces], "classes": [*self.classes]}


def base_in(identity: Any) -> Base | None:
    """The base that a checkpoint's identity tells of; None if its run started from nothing. Raises CheckpointError."""
    if not isinstance(identity, dict) or "from" not in identity:
        return None
    match identity["from"]:
        case {"pieces": [*pieces], "classes": [*classes]} if all(isinstance(each, str) for each in pieces + classes):
            return Base(tuple(pieces), tuple(classes))
    raise CheckpointError("the checkpoint's identity: expected the pieces and classes of its source, got others")


class Source(NamedTuple):
    """The trained model that a run starts from."""

    path: str  # of its checkpoint or file
    trained: Trained

    @property
    def base(self) -> Base:
        """Its vocabulary and classes."""
        return Base(self.trained.tokenizer.vocabulary.pieces, self.trained.classes)

    def fill(self, sections: Sections) -> dict[str, dict[str, Any]]:
        """The options with those of the source's model. Raises ConfigError for others, and for another kind of task."""
        filled = {section: dict(options) for section, options in sections.items()}
        task = filled["run"].get("task", RunOptions.task)
        if TASKS[task].kind != self.trained.kind:
            alike = [name for name, entry in TASKS.items() if entry.kind == self.trained.kind]
            raise ConfigError(
                f"--from {self.path}: expected a model for the task {task}, got one for another kind of task, such as "
                f"{', '.join(alike)}; train one of these, or start from a run of {task}"
            )
        self._fill_tokenizer(task, filled["data"])
        fixed = {"run.dtype": self.trained.model.backend.dtype}
        config = dataclasses.asdict(self.trained.model.config)
        fixed |= {f"model.{name}": config[name] for name in config if name not in (*OF_DATA, *FREE, "head")}
        if config["positions"] == "learned":
            fixed["model.max_seq_len"] = config["max_seq_len"]
        for full, value in fixed.items():
            section, _, name = full.partition(".")
            if filled[section].setdefault(name, value) != value:
                raise ConfigError(
                    f"{full}: expected {in_shell(value)}, as --from {self.path} has, got "
                    f"{in_shell(filled[section][name])}, which its weights were not trained for; leave it out"
                )
        for name in FREE:
            filled["model"].setdefault(name, config[name])
        return filled

    def fill_length(self, model: dict[str, Any], task: Task) -> None:
        """Set the longest sequence of the model. Raises ConfigError if it has learned fewer positions."""
        longest = self.trained.model.config.max_seq_len
        if model["positions"] != "learned":
            model.setdefault("max_seq_len", max(longest, task.max_length))
        elif longest < task.max_length:
            raise ConfigError(
                f"--from {self.path}: expected sequences of at most {longest} tokens, the positions that it has "
                f"learned, got one of {task.max_length}; shorten the data, or start from a run with other positions"
            )

    def _fill_tokenizer(self, task: str, data: dict[str, Any]) -> None:
        its = type(self.trained.tokenizer)
        if "tokenizer" in TASKS[task].data:
            data.setdefault("tokenizer", next((name for name, kind in TOKENIZERS.items() if kind is its), None))
        if tokenizer_of(task, data) is not its:
            raise ConfigError(
                f"--from {self.path}: expected a model whose tokenizer is {tokenizer_of(task, data).__name__}, as the "
                f"data's, got one with {its.__name__}; start from another run, or train from the beginning"
            )

    def set_weights(self, model: Model) -> None:
        """Copy the source's numbers; rows of pieces and classes that it does not have stay as they were drawn."""
        arrays = {name: array.copy() for name, array in model_arrays(model).items()}
        for name, old in model_arrays(self.trained.model).items():
            arrays[name][tuple(slice(size) for size in old.shape)] = old
        set_arrays(model, arrays, self.path)

    def note(self, own: Base, task: Task) -> str:
        """What of the data the source knows. own: the lists of the data alone."""
        lines = [f"the weights are those of {self.path}"]
        for what, before, now in (
            ("pieces", self.base.pieces, own.pieces),
            ("classes", self.base.classes, own.classes),
        ):
            new = [piece for piece in now if piece not in set(before)]
            unused = len(set(before) - set(now))
            if new:
                named = ", ".join(map(repr, new[:NAMED])) + (", …" if len(new) > NAMED else "")
                lines.append(f"{len(new)} {what} are new, and their rows are drawn anew: {named}")
            elif before:
                lines.append(f"all {len(now)} {what} of the data are known")
            if unused:
                lines.append(f"{unused} further {what} of the source are kept")
        return f"note: {'; '.join(lines)}"


def source_of(path: Path) -> Source:
    """The model at a path: a run's folder, a checkpoint's, or a file of ``npf.save``. Raises what reading raises."""
    if not path.is_file():
        run, at = run_of(path)
        path = at or latest_checkpoint(run.checkpoints) or run.path
    return Source(str(path), load_trained(path, "numpy"))


def task_of(path: Path) -> str | None:
    """The task of the run at a path; None for a file."""
    if path.is_file():
        return None
    config: Mapping[str, Any] = read_toml(run_of(path)[0].config_path, SECTIONS)["run"]
    return str(config.get("task", RunOptions.task))
