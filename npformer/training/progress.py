"""Shows training progress: a bar on a terminal, plain lines in a log."""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TextIO

from npformer.percent import percent
from npformer.visible import visible

#: The errors of a pipe and a terminal whose other side is closed.
_NO_READER = (errno.EPIPE, errno.EIO)


class Progress:
    """A bar that moves with every step if stream is a terminal; else a line whenever there is news.

    Once the reader has gone (``npformer train … 2>&1 | head``), nothing more is written and nothing is raised. The
    trainer looks at ``reader_has_gone`` between two steps.
    """

    def __init__(self, total: int, done: int = 0, stream: TextIO | None = None) -> None:
        self.reader_has_gone = False
        self._stream = stream or sys.stderr
        self._total, self._done = total, done
        self._bar: Any = None  # drawn from the first step on: before that, others may write on the terminal

    def advance(self) -> None:
        """Count a finished step."""
        with self._noting():
            if self._bar is None and self._stream.isatty() and not self.reader_has_gone:
                from tqdm import tqdm  # imported here, since it takes a sixth of npformer's import time

                self._bar = tqdm(
                    total=self._total, initial=self._done, file=self._stream, unit="step", dynamic_ncols=True
                )
            if self._bar is not None:
                self._bar.update()

    def news(self, record: dict[str, Any]) -> None:
        """Show a line of metrics: at the end of the bar, or as a line."""
        text = describe(record)
        if self._bar is None:
            self.say(f"step {record['step']:>{len(str(self._total))}}/{self._total}  {text}")
        elif record["kind"] == "train":
            with self._noting():
                self._bar.set_postfix_str(text)
        else:
            self.say(f"step {record['step']}/{self._total}  {text}")

    def say(self, line: str) -> None:
        """Print a permanent line."""
        if self.reader_has_gone:
            return
        with self._noting():
            if self._bar is None:
                print(visible(line), file=self._stream, flush=True)
            else:
                self._bar.write(visible(line), file=self._stream)

    def close(self) -> None:
        """Leave the last state of the bar on the terminal."""
        with self._noting():
            if self._bar is not None:
                self._bar.close()

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
                self._bar.disable = True


def describe(record: dict[str, Any]) -> str:
    """A line of metrics as text."""
    if record["kind"] == "eval":
        return ", ".join([f"held-out: loss {record['loss']:.4f}", *measures(record)])
    return f"loss {record['loss']:.4f}  rate {record['learning_rate']:.2e}  {record['tokens_per_second']:,.0f} tokens/s"


def measures(found: Mapping[str, Any], tokens: str = "tokens") -> list[str]:
    """The measures other than the loss, as text; tokens: the name of the token accuracy."""
    names = {"token_accuracy": tokens, "accuracy": "accuracy", "exact_match": "exact match"}
    shares = [f"{words} {percent(found[name])}" for name, words in names.items() if name in found]
    if "bits_per_character" in found:
        shares.append(f"{found['bits_per_character']:.3f} bits per character")
    return shares
