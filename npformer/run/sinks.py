"""Sinks: further places for a run's metrics, as ``--log-to tensorboard,csv`` names them.

A sink is made from the run's folder and the step that the run goes on from; ``write`` gets each line of metrics.jsonl
as it is written, and ``close`` comes at the end. ``SINKS`` may be given more of them. None can stop a training: the
first error of a sink is told once, and the sink is left out from then on.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from typing import Any, Protocol

from npformer.errors import ConfigError
from npformer.extras import install
from npformer.io.atomic_files import describe
from npformer.run import metrics
from npformer.run.config_file import expect_known
from npformer.run.directory import RunDirectory


class Sink(Protocol):
    """Takes the lines of metrics.jsonl. Either method may raise anything."""

    def write(self, record: Mapping[str, Any]) -> None:
        """Take a line."""

    def close(self) -> None:
        """Take leave: no line follows."""


class Csv:
    """metrics.csv in the run's folder: the lines of training and evaluation as one table, whole after each line."""

    COLUMNS = ("step", "kind", "time", "elapsed", "loss", "learning_rate", "grad_norm", "tokens_per_second",
               "token_accuracy", "accuracy", "exact_match", "bits_per_character", "examples")  # fmt: skip

    def __init__(self, run: RunDirectory, step: int) -> None:
        self._file = (run.path / "metrics.csv").open("w", newline="", encoding="utf-8")
        self._table = csv.DictWriter(self._file, self.COLUMNS, extrasaction="ignore")
        self._table.writeheader()
        for record in metrics.read(run.metrics_path):  # of a run that is resumed
            self.write(record)
        self._file.flush()

    def write(self, record: Mapping[str, Any]) -> None:
        """Add a row for a line of training or evaluation."""
        if record["kind"] in ("train", "eval"):
            self._table.writerow(record)
            self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class TensorBoard:
    """Event files in the folder tensorboard of the run, for ``tensorboard --logdir runs``.

    A line becomes scalars named after its kind and fields: train/loss, eval/loss, gradient/norm.PART. They are written
    here and not by tensorboardX's SummaryWriter, whose thread ends at a full disk and then lets the next call wait.
    They are in the file after each evaluation and at the end: its flush waits for the disk.
    """

    def __init__(self, run: RunDirectory, step: int) -> None:
        from tensorboardX.event_file_writer import EventsWriter
        from tensorboardX.proto import event_pb2

        folder = run.path / "tensorboard"
        folder.mkdir(exist_ok=True)
        self._protocol: Any = event_pb2
        self._writer: Any = EventsWriter(str(folder / "events"), f".{os.getpid()}.{step}")
        began = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
        # so that TensorBoard drops later events of earlier files
        self._writer.write_event(event_pb2.Event(step=step + 1, session_log=began))

    def write(self, record: Mapping[str, Any]) -> None:
        """Add the numbers of a line as scalars."""
        if "step" in record:
            event = self._protocol.Event(step=record["step"], wall_time=record["time"])
            for name, value in record.items():
                if isinstance(value, int | float) and name not in ("step", "time"):
                    event.summary.value.add(tag=f"{record['kind']}/{name}", simple_value=value)
            self._writer.write_event(event)
        if record["kind"] == "eval":
            self._writer.flush()

    def close(self) -> None:
        """Close the file."""
        self._writer.close()


#: Name -> what makes the sink, from the run and its step.
SINKS: dict[str, Callable[[RunDirectory, int], Sink]] = {"csv": Csv, "tensorboard": TensorBoard}


def named(log_to: str | None) -> list[str]:
    """The sinks that an option's text names."""
    return [name.strip() for name in (log_to or "").split(",") if name.strip()]


def expect_sinks(names: Iterable[str]) -> None:
    """Raise ConfigError for an unknown sink, or one whose package is missing."""
    expect_known("--log-to: sink", names, SINKS)
    for name in names:
        if name == "tensorboard" and find_spec("tensorboardX") is None:
            raise ConfigError(
                f"--log-to tensorboard: expected the package tensorboardX, found none: {install('tensorboard')}"
            )


class Sinks:
    """Sinks of these names, of which each is left out after its first error; say is told about it."""

    def __init__(self, names: Iterable[str], say: Callable[[str], None]) -> None:
        self._names, self._say = list(names), say
        self._open: dict[str, Sink] = {}

    def open(self, run: RunDirectory, step: int) -> None:
        """Make the sinks."""
        for name in self._names:
            self._try(name, partial(self._make, name, run, step))

    def write(self, record: Mapping[str, Any]) -> None:
        """Give a line to all of them."""
        for name, sink in list(self._open.items()):
            self._try(name, partial(sink.write, record))

    def close(self) -> None:
        """Close all of them."""
        for name, sink in list(self._open.items()):
            self._try(name, sink.close)
        self._open.clear()

    def _make(self, name: str, run: RunDirectory, step: int) -> None:
        expect_sinks([name])  # a run that is resumed elsewhere may name one that is not there
        self._open[name] = SINKS[name](run, step)

    def _try(self, name: str, call: Callable[[], Any]) -> None:
        try:
            call()
        except Exception as error:  # whatever it is, the training goes on
            why = describe(error) if isinstance(error, OSError) else str(error) or type(error).__name__
            self._say(f"warning: --log-to {name} has failed and gets no more: {why}; the training goes on")
            sink = self._open.pop(name, None)
            with suppress(Exception):
                if sink is not None:
                    sink.close()
