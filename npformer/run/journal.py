"""What a run tells while it trains: the lines of metrics.jsonl, the progress, sinks, and who listens in Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

from npformer._version import __version__
from npformer.io.seconds import now, since, wall_clock
from npformer.run import metrics
from npformer.run.directory import RunDirectory
from npformer.run.progress import RunProgress
from npformer.run.sinks import Sinks

#: The version of the lines of metrics.jsonl: it grows when a field gets another name or another meaning.
VERSION = 1


class StepMade(NamedTuple):
    """A step that was made."""

    step: int  # counted from 1
    loss: Any  # (), on the device, before the update: float(loss) waits for it
    learning_rate: float
    grad_norm: Any  # (), on the device, before clipping; None without clipping


OnStep: TypeAlias = Callable[[StepMade], object]
OnEvaluate: TypeAlias = Callable[[Mapping[str, Any]], object]


class Listeners(NamedTuple):
    """Who is told of a run: a function for each step, one for each evaluation, and names of sinks.

    on_evaluate gets the line of kind "eval" of metrics.jsonl. What a function raises ends the training.
    """

    on_step: OnStep | None = None
    on_evaluate: OnEvaluate | None = None
    log_to: Iterable[str] = ()


class Journal:
    """The lines of a run. Each gets its wall-clock time, and the seconds that the run has trained so far."""

    def __init__(self, run: RunDirectory, progress: RunProgress, listeners: Listeners) -> None:
        self._run, self._progress, self._listeners = run, progress, listeners
        self._log, self._sinks = metrics.MetricsLog(run.metrics_path), Sinks(listeners.log_to, progress.say)
        self._before, self._began = 0.0, now()

    def go_back(self, step: int) -> None:
        """Drop the lines after a step, from which the run goes on. Raises DataError or OutputError."""
        self._log.truncate_after(step)
        told = [record.get("elapsed") for record in metrics.read(self._run.metrics_path)]
        self._before = max((seconds for seconds in told if isinstance(seconds, int | float)), default=0.0)

    def begin(self, step: int) -> None:
        """Begin after this step. A new file begins with its version."""
        if not self._run.metrics_path.exists():
            self._log.append({"kind": "run", "version": VERSION, "npformer": __version__, "time": wall_clock()})
        self._sinks.open(self._run, step)  # some import much
        self._began = now()

    def write(self, record: Mapping[str, Any], *, shown: bool = True) -> None:
        """Add a line, show it, and tell it. Raises OutputError if it cannot be written to metrics.jsonl."""
        line = {**record, "time": wall_clock(), "elapsed": round(self._before + since(self._began), 3)}
        self._log.append(line)
        if shown:
            self._progress.news(line)
        self._sinks.write(line)
        if record["kind"] == "eval" and self._listeners.on_evaluate is not None:
            self._listeners.on_evaluate(line)

    def stepped(self, step: int, loss: Any, learning_rate: float, grad_norm: Any) -> None:
        """Tell of a step."""
        if self._listeners.on_step is not None:
            self._listeners.on_step(StepMade(step, loss, learning_rate, grad_norm))

    def close(self) -> None:
        """Close the sinks."""
        self._sinks.close()


class Silent(Journal):
    """The journal of a process that leaves the telling to another."""

    def __init__(self) -> None:
        pass

    def _nothing(self, *arguments: Any, **options: Any) -> None:
        """Whatever is told."""

    go_back = begin = write = stepped = close = _nothing
