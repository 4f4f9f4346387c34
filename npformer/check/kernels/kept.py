"""Verdicts as JSON, in a file that is whole after each kernel, so that an interrupted run goes on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from npformer.errors import DataError
from npformer.io.output_files import write_file

FORMAT, VERSION = "npformer-judge", 1


def document(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The whole result."""
    return {"format": FORMAT, "version": VERSION, "ok": all(r["verdict"] == "right" for r in rows), "kernels": [*rows]}


def read(path: Path) -> dict[str, dict[str, Any]]:
    """The verdicts of an earlier run by their keys. Raises DataError for another file."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if (found["format"], found["version"]) != (FORMAT, VERSION):
            raise ValueError
        return {row["key"]: row for row in found["kernels"]}
    except (ValueError, KeyError, TypeError) as error:
        way = "leave --resume out to begin again"
        raise DataError(f"--resume: expected verdicts of version {VERSION} in {path}, got other JSON; {way}") from error


def write(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write the verdicts so far. Raises OutputError."""
    write_file(path, "--out", json.dumps(document(rows), separators=(",", ":")).encode())
