"""Shows training progress: lines, and below them a bar on a terminal."""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TextIO

from npformer.io.percent import percent
from npformer.io.printable import visible
from npformer.io.progress_bar import Bar, clock, say
from npformer.io.seconds import now, since
from npformer.io.terminal import folded

#: The errors of a pipe and a terminal whose other side is closed.
_NO_READER = (errno.EPIPE, errno.EIO)


class RunProgress:
    """A line whenever there is news; if stream is a terminal, also a bar below the lines, which moves with every step.

    Once the reader has gone (``npformer train … 2>&1 | head``), nothing more is written and nothing is raised. The
    trainer looks at ``reader_has_gone`` between two steps.
    """

    def __init__(self, total: int, done: int = 0, stream: TextIO | None = None) -> None:
        self.reader_has_gone = False
        self._stream = stream or sys.stderr
        self._total, self._done = total, done
        self._bar: Bar | None = None  # drawn from the first step on: before that, others may write on the terminal
        self._began = now()

    def advance(self) -> None:
        """Count a finished step."""
        if self.reader_has_gone:
            return
        with self._noting():
            if self._bar is None:
                self._bar = Bar("training", self._total, self._stream, self._done, stays=True)
                self._began = now()
            self._bar.move()
            self._done += 1

    def news(self, record: dict[str, Any]) -> None:
        """Show a line of metrics, and in the bar the loss."""
        self.say(f"step {record['step']:>{len(str(self._total))}}/{self._total}  {describe(record)}")
        if self._bar is not None and record["kind"] == "train":
            with self._noting():
                loss = f"loss {record['loss']:.4f} at {record['step']}"  # the newest that was read from the device
                self._bar.note(loss)

    def say(self, line: str) -> None:
        """Print a permanent line; on a terminal it is folded as prose is."""
        if not self.reader_has_gone:
            with self._noting():
                say(folded(visible(line), self._stream), self._stream)

    def close(self) -> None:
        """Leave the last state of the bar on the terminal, or tell in a log how long it took."""
        if self._bar is None or self.reader_has_gone:
            return
        with self._noting():
            self._bar.close()
        if not self._bar.is_drawn:
            self.say(f"step {self._done}/{self._total}  after {clock(since(self._began))}")

    @contextmanager
    def _noting(self) -> Iterator[None]:
        """Note that the reader has gone, and draw no more. Raises OSError for other failures of the stream."""
        try:
            yield
        except OSError as error:
            if error.errno not in _NO_READER:
                raise
            self.reader_has_gone = True
            if self._bar is not None:
                self._bar.hide()


def describe(record: dict[str, Any]) -> str:
    """A line of metrics as text."""
    if record["kind"] == "eval":
        return ", ".join([f"held-out: loss {record['loss']:.4f}", *measures(record)])
    return f"loss {record['loss']:.4f}  rate {record['learning_rate']:.2e}  {record['tokens_per_second']:,.0f} tokens/s"


def measures(values: Mapping[str, Any], tokens: str = "tokens") -> list[str]:
    """The measures other than the loss, as text; tokens: the name of the token accuracy."""
    names = {"token_accuracy": tokens, "accuracy": "accuracy", "exact_match": "exact match"}
    shares = [f"{words} {percent(values[name])}" for name, words in names.items() if name in values]
    if "bits_per_character" in values:
        shares.append(f"{values['bits_per_character']:.3f} bits per character")
    return shares
