"""The options of a run as text: a table on a terminal, or JSON."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Sequence

from npformer.io.terminal import fill, width_of
from npformer.run.option_table import Row, option_rows

LEAST = 30  # columns that a meaning needs beside the rest; with fewer it stands below


def options_text(task: str | None, as_json: bool) -> str:
    """The options of a task, or of all tasks."""
    rows = option_rows(task)
    if as_json:
        return json.dumps({"task": task, "options": [row._asdict() for row in rows]})
    return (
        table(rows, width_of(sys.stdout))
        + "\n\n"
        + fill("Set an option by --set NAME=VALUE, several by --config FILE (TOML).")
    )


def table(rows: Sequence[Row], width: int | None) -> str:
    """Sections one below the other; a meaning is wrapped to the width of a terminal, or on one line without one."""
    cells = [(row.name, row.kind, row.default) for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines: list[str] = []
    for section in dict.fromkeys(row.section for row in rows):
        lines += ["", f"[{section}]"] if lines else [f"[{section}]"]
        for row in (row for row in rows if row.section == section):
            lines += _lines(row, widths, width)
    return "\n".join(lines)


def _lines(row: Row, widths: Sequence[int], width: int | None) -> list[str]:
    name, kind, default = widths
    head = f"  {row.name:<{name}}  {row.default:<{default}}  "
    told = f"{row.meaning} ({row.kind})"
    if width is None:
        return [f"{head}{row.kind:<{kind}}  {row.meaning}"]
    if width - len(head) >= LEAST:
        return textwrap.wrap(told, width - 1, initial_indent=head, subsequent_indent=" " * len(head))
    return [head.rstrip(), *textwrap.wrap(told, width - 1, initial_indent="      ", subsequent_indent="      ")]
