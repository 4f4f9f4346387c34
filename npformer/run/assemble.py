"""Builds the task, the model and the training step from options, or again from a run's folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from npformer._version import __version__
from npformer.data import PairsTask, SequenceTask, Task, text_from_file
from npformer.errors import CheckpointError, ConfigError, OutputError
from npformer.io.atomic_files import describe, write_atomically
from npformer.models import Model, Transformer, build_model
from npformer.optim import Adam, AdamW
from npformer.run.checkpoint import Checkpoint
from npformer.run.config_file import parse_toml, read_toml, shown
from npformer.run.directory import RunDirectory
from npformer.run.journal import Listeners
from npformer.run.memory import expect_memory
from npformer.run.model_arrays import expect_arrays, model_arrays_of, table_of
from npformer.run.model_file import digest
from npformer.run.options import SECTIONS, DataOptions, Options, RunOptions, TrainingOptions, complete
from npformer.run.progress import RunProgress
from npformer.run.sinks import named
from npformer.run.start_from import extend, source_of
from npformer.run.tasks import TASKS, Sections, with_defaults
from npformer.run.trained import backend_of
from npformer.run.trainer import Trainer
from npformer.run.world import GPU, SINGLE, World, versions
from npformer.training.step import TrainStep


@dataclass(frozen=True)
class Assembled:
    """A run's parts, ready for a Trainer."""

    options: Options
    task: Task
    step: TrainStep
    identity: dict[str, Any]  # describes the data; must be equal when the run is resumed
    note: str = ""  # on the run that this one starts from

    def config(self) -> str:
        """The text of config.toml."""
        return self.options.text()

    def conditions(self) -> dict[str, str]:
        """What all processes of a run must have alike, and the GPU, of which each has another.

        Slots give the same bits for any number of threads.
        """
        model = self.step.model
        here = versions(model.backend)
        del here["threads"]
        begin = {
            "options": self.config(),
            "weights": f"SHA-256 {digest({}, {'': model.backend.host(model.arena.values)})}",
        }
        gpu = {GPU: name} if (name := getattr(model.backend.device, "card", "")) else {}
        return {"npformer": __version__, "data": str(self.identity)} | here | begin | gpu

    def trainer(
        self, run: RunDirectory, progress: RunProgress | None = None, listeners: Listeners | None = None
    ) -> Trainer:
        """The Trainer of these parts in the run's folder."""
        training = self.options.training
        listeners = listeners or Listeners()
        listeners = listeners._replace(log_to=[*listeners.log_to, *named(self.options.run.log_to)])
        return Trainer(run, self.task, self.step, training, self.identity, progress, self.config(), listeners)

    def word_lists(self, run: RunDirectory) -> dict[Path, bytes]:
        """The contents of vocabulary.txt and, if there are classes, classes.txt, by path in the run."""
        files = {run.vocabulary_path: self.task.vocabulary.content()}
        if self.task.classes:
            files[run.classes_path] = "".join(f"{name}\n" for name in self.task.classes).encode()
        return files


def assemble(sections: Sections, resumed: Checkpoint | None = None, world: World = SINGLE) -> Assembled:
    """Build task, model, optimiser and step from the options given, by section and key.

    resumed: the checkpoint to resume from. Data and model are compared with it before the model is built. Raises
    ConfigError, also for too little memory, DataError or DeviceError, and CheckpointError if data or model differ.
    """
    source = None
    if sections["run"].get("init_from") is not None and resumed is None:
        source = source_of(Path(sections["run"]["init_from"]))
        sections = source.fill(sections)
        sections["run"]["init_from"] = source.path
    full = with_defaults(sections)
    run, data = RunOptions(**full["run"]), DataOptions(**full["data"])
    task, identity, note = task_of(run, data, resumed, source.base if source else None)
    if source:
        sections = {**sections, "model": {"max_seq_len": source.longest(task), **full["model"]}}
    options = complete(sections, len(task.vocabulary), task.max_length, len(task.classes))
    if resumed:
        expect_arrays(options.model, run.dtype, table_of(model_arrays_of(resumed)), str(resumed.path))
    backend = backend_of(run, run.device)
    expect_memory(options, task, backend, resumed.step if resumed else 0)
    model = build_model(options.model, backend=backend, seed=run.seed)
    if source:
        source.set_weights(model)
        note = f"note: the weights are those of {source.path}{note}"
    return Assembled(options, task, make_step(model, options, world), identity, note if source else "")


def task_of(
    run: RunOptions, data: DataOptions, trained: Checkpoint | None, base: Any
) -> tuple[Task, dict[str, Any], str]:
    """The task, its identity, and what of its data is known to the run with this base from which it starts.

    Raises ConfigError or DataError, and CheckpointError if a checkpoint was trained on other data.
    """
    then: Any = trained.state.get("identity") if trained else {}
    if trained and (not isinstance(then, dict) or then.get("task") != run.task):
        raise _other_data(data, run, {"task": then.get("task")} if isinstance(then, dict) else {}, {})
    base = base or then.get("from")
    task = make_task(run, data)
    note = "" if base is None else extend(task, base)
    identity: dict[str, Any] = {"task": run.task, "digest": getattr(task, "digest", None)}
    if data.file is not None and (not trained or "bytes" in then):  # for words about a file that has changed
        identity["bytes"] = Path(data.file).stat().st_size
    if base is not None:
        identity["from"] = base
    if trained and then != identity:  # before sizes that depend on the data are compared
        raise _other_data(data, run, then, identity)
    return task, identity, note


def make_task(run: RunOptions, data: DataOptions) -> Task:
    """The task that the options name. Raises ConfigError or DataError."""
    arguments = {name: getattr(data, name) for name in TASKS[run.task].data if getattr(data, name) is not None}
    if data.file is not None and "file" not in arguments:
        owns = ", ".join(name for name, entry in TASKS.items() if "file" in entry.data)
        raise ConfigError(
            f"data.file: expected none for the task {run.task}, which is generated, got {data.file!r}; "
            f"tasks on a file of your own: {owns}"
        )
    if run.task == "pairs":
        if data.file is None:
            raise ConfigError(
                "data.file: expected a file of source<TAB>target lines for the task pairs, got none; write one, and "
                "name it: npformer train pairs --data pairs.tsv"
            )
        return PairsTask.from_tsv(arguments.pop("file"), seed=run.seed, **arguments)
    if run.task in ("copy", "reverse", "sort"):
        return SequenceTask(run.task, seed=run.seed, **arguments)
    if data.file is not None:
        return text_from_file(arguments.pop("file"), seed=run.seed, **arguments)
    from npformer.data.real import REAL_TASKS  # slow to import, and needed only here

    arguments.pop("held_out_fraction", None)
    return REAL_TASKS[run.task](seed=run.seed, **arguments)


def _other_data(data: DataOptions, run: RunOptions, then: Mapping[str, Any], now: Mapping[str, Any]) -> CheckpointError:
    """The error for other data, in words: of another task, in a changed file, or made in another way."""
    told, got = (_content(about.get("digest"), about.get("bytes")) for about in (then, now))
    if then.get("task") != run.task:
        told, got = f"those of {shown(then.get('task'))}", f"the task {run.task}"
    return CheckpointError(
        f"{data.file or run.task}: expected the data that the run was trained on, {told}, got {got}; restore "
        f"{'the data file' if data.file else 'its options and packages'}, or start a new run"
    )


def _content(digest: Any, size: Any = None) -> str:
    """Bytes in words: how many, if that is known, and how their SHA-256 begins."""
    count = f"{size:,} bytes" if isinstance(size, int) else "content"
    return f"{count} of SHA-256 {str(digest)[:8]}…"


def make_step(model: Model, options: Options, world: World = SINGLE) -> TrainStep:
    """The training step that the options describe."""
    decoding = ["decoding"] if isinstance(model, Transformer) else []  # held-out examples, during training
    if model.backend.engine is not None:
        model.backend.engine.compile_ahead(model, "training", *decoding)
    training: TrainingOptions = options.training
    betas = (training.beta1, training.beta2)
    optimizer = (
        AdamW(model.arena, training.learning_rate, betas, training.eps, training.weight_decay)
        if training.optimizer == "adamw"
        else Adam(model.arena, training.learning_rate, betas, training.eps)
    )
    return TrainStep(
        model,
        optimizer,
        seed=options.run.seed,
        label_smoothing=training.label_smoothing,
        clip_norm=training.clip_norm,
        schedule=training.make_schedule(model.config.d_model),
        accumulate=training.accumulate,
        slots=training.slots,
        ranks=world.ranks,
        shard_optimizer=world.shard_optimizer,
    )


def write_run(run: RunDirectory, assembled: Assembled) -> None:
    """Write vocabulary.txt and, with classes, classes.txt, where they are missing, and a config.toml of its options.

    Each file is written atomically and durably. Raises OutputError if they cannot be written.
    """
    for path, content in assembled.word_lists(run).items():
        if not path.exists():
            write_file(path, content)
    path, config = run.config_path, assembled.config()
    if not path.exists() or read_toml(path, SECTIONS) != parse_toml(config, path, SECTIONS):
        write_file(path, config.encode())


def write_file(path: Path, content: bytes) -> None:
    """Write a file of a run, replacing an older one. Raises OutputError."""
    try:
        write_atomically(path, content)
    except OSError as error:
        raise OutputError(
            f"{path}: expected to write it, got: {describe(error)}; make room, or choose another --out"
        ) from error
