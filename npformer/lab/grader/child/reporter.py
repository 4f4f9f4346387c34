"""Reports the events in the learner's process to the grader: one line of JSON for each event."""

from __future__ import annotations

import json
import traceback
import warnings
from typing import Any


class Reporter:
    """Writes events, one line of JSON each, with the stage at which they occurred."""

    def __init__(self, stream: Any, path: str) -> None:
        self.stream, self.path = stream, path
        self.stage: dict[str, Any] = {"step": "load", "case": None}

    def say(self, event: str, **values: Any) -> None:
        self.stream.write(json.dumps({"event": event, **self.stage, **values}) + "\n")
        self.stream.flush()

    def enter(self, step: str, case: int | None) -> None:
        self.stage = {"step": step, "case": case}
        self.say("stage")

    def failed(self, error: BaseException) -> None:
        """An error, with the last line of the learner's file that it passed through."""
        passed = traceback.walk_tb(error.__traceback__)
        lines = [line for frame, line in passed if frame.f_code.co_filename == self.path]
        self.say("failed", type=type(error).__name__, message=str(error)[:2000], line=lines[-1] if lines else None)


def collect_warnings(path: str) -> list[dict[str, Any]]:
    """A list that collects the first few warnings from now on, with their lines in the file path."""
    noted: list[dict[str, Any]] = []

    def note(message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None) -> None:
        told = {"message": str(message)[:200], "line": lineno if filename == path else None}
        if told not in noted and len(noted) < 5:
            noted.append(told)

    warnings.simplefilter("always")
    warnings.showwarning = note
    return noted
