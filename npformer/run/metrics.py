"""The metrics of a run: one JSON object per line, written at once and readable while the file grows.

A number that is not finite is not JSON; it is written as "NaN", "Infinity" or "-Infinity", and
`read` turns these three texts back into floats. A line that a killed process left half written has
no line end and does not parse: readers skip it, and the next writer removes it.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from npformer.errors import DataError, OutputError
from npformer.io.atomic_files import describe, disk_is_full, open_regular, read_regular, write_all, write_atomically

_WORDS = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


class MetricsLog:
    """The metrics file at path, with one writing process. The first append creates it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._mended = False

    def append(self, record: Mapping[str, Any]) -> None:
        """Add one line; it is in the file when the call returns.

        Raises OutputError if it cannot be written (the file is then as it was before), DataError if the
        record holds something that JSON does not.
        """
        line = _encode(record)
        try:
            if not self._mended:
                self._mend()
            descriptor = open_regular(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            try:
                _append_whole(descriptor, line)
            finally:
                os.close(descriptor)
        except OSError as error:
            self._mended = False  # a partial line that could not be undone is removed before the next line
            raise _not_written(self.path, error) from error

    def truncate_after(self, step: int) -> None:
        """Drop the lines of later steps and a torn last line, for a resume from that step.

        Lines without a "step" stay. The file is replaced as a whole or not at all. Raises DataError
        (and changes nothing) for a line that is no JSON object, OutputError if it cannot be written.
        """
        kept = b"".join(line for line, record in _lines(self.path) if not _is_after(record, step))
        try:
            with suppress(FileNotFoundError):
                if kept != read_regular(self.path):
                    write_atomically(self.path, kept)
        except OSError as error:
            raise _not_written(self.path, error) from error

    def _mend(self) -> None:
        """Complete a last line that lacks its line end, or remove it if it is torn. Raises OSError."""
        with suppress(FileNotFoundError):
            data = read_regular(self.path)
            tail = data.rpartition(b"\n")[2]
            if tail and _decode(tail) is None:
                os.truncate(self.path, len(data) - len(tail))
            elif tail:
                write_atomically(self.path, data + b"\n")
        self._mended = True


def read(path: Path) -> list[dict[str, Any]]:
    """The records in order; none if there is no file. A torn last line is left out.

    Raises DataError with the line number for any other line that is no JSON object.
    """
    return [record for _, record in _lines(path)]


def _encode(record: Mapping[str, Any]) -> bytes:
    try:
        return (json.dumps({name: _plain(value) for name, value in record.items()}, allow_nan=False) + "\n").encode()
    except (TypeError, ValueError) as error:
        raise DataError(f"metrics: expected numbers, texts, true, false or None, got {record!r}: {error}") from error


def _plain(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    return _WORDS[str(value)] if isinstance(value, float) and not math.isfinite(value) else value


def _decode(line: bytes) -> dict[str, Any] | None:
    """The record of a line, or None if it is not one."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    words = _WORDS.values()
    return {name: float(value) if value in words else value for name, value in record.items()}


def _lines(path: Path) -> list[tuple[bytes, dict[str, Any]]]:
    """Each whole line with its line end, and its record."""
    try:
        data = read_regular(path)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise DataError(f"{path}: expected to read it, got: {describe(error)}") from error
    records = []
    lines = data.splitlines(keepends=True)
    for number, line in enumerate(lines, start=1):
        record = _decode(line)
        if record is not None:
            records.append((line.rstrip() + b"\n", record))
        elif line.strip() and (number < len(lines) or line.endswith(b"\n")):
            raise DataError(f"{path}, line {number}: expected a JSON object, found {line[:60]!r}: mend or remove it")
    return records


def _is_after(record: dict[str, Any], step: int) -> bool:
    number = record.get("step")
    return isinstance(number, int | float) and number > step


def _append_whole(descriptor: int, line: bytes) -> None:
    """Write the line, or undo a partial write: half a line would corrupt the next one."""
    before = os.fstat(descriptor).st_size
    try:
        write_all(descriptor, line)
    except BaseException:
        with suppress(OSError):
            os.ftruncate(descriptor, before)
        raise


def _not_written(path: Path, error: OSError) -> OutputError:
    remedy = "free some space" if disk_is_full(error) else "allow writing to it"
    return OutputError(
        f"{path}: expected to write the run's metrics, got: {describe(error)}; all earlier lines are "
        f"intact: {remedy}, then resume the run"
    )
