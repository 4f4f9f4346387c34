"""A run that starts from the weights of another, on other data: ``npformer train TASK --from RUN``.

The model is that of the source. Its vocabulary comes first in the new one, so that every id and every row is as it was;
pieces that only the new data have follow, and their rows are drawn anew. So it is with classes. The optimiser begins
anew. The lists of the source are kept in the run's checkpoints, so a resumed run does not need the source.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from npformer.data import Task, Vocabulary
from npformer.data.own_text import TOKENIZERS
from npformer.errors import CheckpointError, ConfigError
from npformer.models import Model
from npformer.run.checkpoint import latest_checkpoint
from npformer.run.config_file import FOLLOW, in_shell
from npformer.run.model_arrays import model_arrays, set_arrays
from npformer.run.model_file import load_trained
from npformer.run.options import OF_DATA, RunOptions
from npformer.run.tasks import TASKS, Sections, tokenizer_of
from npformer.run.trained import Trained, run_of

#: Options of a model that change no meaning of its weights.
FREE = ("dropout", "recompute")
NAMED = 20  # the most new pieces of a message


def extend(task: Any, base: Any) -> str:
    """Give the task a vocabulary and classes that begin with those of base, as a checkpoint's identity keeps it.

    Returns what of the task's own is known. Raises CheckpointError if base is not as it was saved.
    """
    match base:
        case {"pieces": [*pieces], "classes": [*classes]} if all(isinstance(each, str) for each in pieces + classes):
            told = [_compared("pieces", pieces, task.vocabulary.pieces), _compared("classes", classes, task.classes)]
            names = [dict.fromkeys(each) for each in ((*pieces, *task.vocabulary.pieces), (*classes, *task.classes))]
            task.retokenize(type(task.tokenizer)(Vocabulary(tuple(names[0]))), tuple(names[1]))
            return "".join(told)
    raise CheckpointError("identity: expected the pieces and classes that the run started from, got others")


def _compared(what: str, before: Sequence[str], now: Sequence[str]) -> str:
    new, kept = [piece for piece in now if piece not in set(before)], len(set(before) - set(now))
    named = ", ".join(map(repr, new[:NAMED])) + (", …" if len(new) > NAMED else "")
    told = f"; {len(new)} {what} are new, and their rows are drawn anew: {named}" if new else ""
    told = told or (f"; all {len(now)} {what} of the data are known" if now else "")
    return told + (f"; {kept} further {what} of the source are kept" if kept else "")


class WeightSource(NamedTuple):
    """The trained model that a run starts from."""

    path: str  # of its checkpoint or file
    trained: Trained

    @property
    def base(self) -> dict[str, list[str]]:
        """Its vocabulary and classes."""
        return {"pieces": [*self.trained.tokenizer.vocabulary.pieces], "classes": [*self.trained.classes]}

    def fill(self, sections: Sections) -> dict[str, dict[str, Any]]:
        """The options with those of the source's model. Raises ConfigError for others, and for another kind of task."""
        filled = {section: dict(options) for section, options in sections.items()}
        task, config = filled["run"].get("task", RunOptions.task), dataclasses.asdict(self.trained.model.config)
        if TASKS[task].kind != self.trained.kind:
            alike = ", ".join(name for name, entry in TASKS.items() if entry.kind == self.trained.kind)
            raise ConfigError(
                f"--from {self.path}: expected a model for the task {task}, got one for another kind of task, such as "
                f"{alike}; train one of these, or start from a run of {task}"
            )
        own = type(self.trained.tokenizer)
        if "tokenizer" in TASKS[task].data:
            filled["data"].setdefault("tokenizer", next(name for name, kind in TOKENIZERS.items() if kind is own))
        if (wanted := tokenizer_of(task, filled["data"])) is not own:
            raise ConfigError(
                f"--from {self.path}: expected a model whose tokenizer is {wanted.__name__}, as the data's, got one "
                f"with {own.__name__}; start from another run, or train from the beginning"
            )
        fixed = {f"model.{name}": config[name] for name in config if name not in (*OF_DATA, *FREE, *FOLLOW)}
        for full, value in {"run.dtype": self.trained.model.backend.dtype, **fixed}.items():
            section, _, name = full.partition(".")
            if filled[section].setdefault(name, value) != value:
                raise ConfigError(
                    f"{full}: expected {in_shell(value)}, as --from {self.path} has, got "
                    f"{in_shell(filled[section][name])}, which its weights were not trained for; leave it out"
                )
        filled["model"] = {name: config[name] for name in FREE} | filled["model"]
        return filled

    def longest(self, task: Task) -> int:
        """The longest sequence of the model with this task. Raises ConfigError if too few positions are learned."""
        config = self.trained.model.config
        if config.positions == "learned" and config.max_seq_len < task.max_length:
            raise ConfigError(
                f"--from {self.path}: expected sequences of at most {config.max_seq_len} tokens, the positions that it "
                f"has learned, got one of {task.max_length}; shorten the data, or start from a run with other positions"
            )
        return max(config.max_seq_len, task.max_length)

    def set_weights(self, model: Model) -> None:
        """Copy the source's numbers; rows of pieces and classes that it does not have stay as they were drawn."""
        arrays = {name: array.copy() for name, array in model_arrays(model).items()}
        for name, old in model_arrays(self.trained.model).items():
            arrays[name][tuple(slice(size) for size in old.shape)] = old
        set_arrays(model, arrays, self.path)


def source_of(path: Path) -> WeightSource:
    """The model at a path: a run's folder, a checkpoint's, or a file of ``npf.save``. Raises what reading raises."""
    if not path.is_file():
        run, at = run_of(path)
        path = at or latest_checkpoint(run.checkpoints) or run.path
    return WeightSource(str(path), load_trained(path, "numpy"))
