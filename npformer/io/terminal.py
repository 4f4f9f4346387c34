"""What is known of a terminal: whether there is one, how wide it is, and whether its text is coloured.

Colour says right, wrong or not yet, and only repeats what the words say, so nothing is lost without it. "auto" colours
the text on a terminal, unless the environment has NO_COLOR (https://no-color.org) or TERM=dumb.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Sequence
from contextlib import suppress
from typing import TextIO

from npformer.io.printable import visible

COLOURS = ("auto", "always", "never")
GREEN, RED, YELLOW = "32", "31", "33"  # the codes of ANSI
NARROWEST, USUAL, WIDEST = 60, 80, 100  # columns of prose; the usual ones where there is no terminal

#: What IPython's kernel sets for all that it starts.
_KERNEL = {"TERM": "xterm-color", "PAGER": "cat", "GIT_PAGER": "cat"}

_chosen = "auto"
_UNITS = re.compile(r"(?<=\d) (?=%|m?s\b|G\w+/s)")  # the blank between a number and its unit


def choose_colour(choice: str) -> None:
    """Colour texts from now on: "auto", "always" or "never"."""
    global _chosen
    _chosen = choice


def is_terminal(stream: TextIO | None) -> bool:
    """Whether it is a terminal that understands its codes, such as colours."""
    return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"


def in_notebook() -> bool:
    """Whether a cell of a Jupyter notebook runs this, in its own process or by ``!npformer``.

    A command after ``!`` may have a terminal, but the notebook keeps every line that is drawn there.
    """
    return all(os.environ.get(name) == value for name, value in _KERNEL.items())


def is_coloured() -> bool:
    """Whether text on standard output is coloured."""
    if _chosen != "auto":
        return _chosen == "always"
    return is_terminal(sys.stdout) and not os.environ.get("NO_COLOR")


def columns(widest: int = WIDEST, stream: TextIO | None = None) -> int:
    """The columns for prose on this stream (default: standard output): the terminal's, from 60 to 100; 80 in a pipe.

    widest: another limit, for tables and code.
    """
    width = width_of(sys.stdout if stream is None else stream)
    return USUAL if width is None else min(max(width, NARROWEST), widest)


def width_of(stream: TextIO | None) -> int | None:
    """The columns of a terminal; None: a pipe, a file, or nothing."""
    if stream is None or not stream.isatty():
        return None
    here = USUAL  # shutil asks the terminal of standard output alone
    with suppress(OSError, ValueError):
        here = os.get_terminal_size(stream.fileno()).columns or USUAL
    return shutil.get_terminal_size((here, 24)).columns


def fill(text: str, width: int | None = None, first: str = "", hanging: str = "") -> str:
    """Prose in lines of at most width columns (default: those of standard output); a word that is longer stands out.

    first, hanging: what the first line begins with, and the others. A number and its unit stay on one line.
    """
    room, kept = columns() if width is None else width, _UNITS.sub("\0", text)
    lines = textwrap.wrap(
        kept, room, initial_indent=first, subsequent_indent=hanging, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(lines).replace("\0", " ") if lines else first.rstrip()


def counted(number: int, noun: str) -> str:
    """The number, and the noun in its singular or plural."""
    return f"{number} {noun}" + ("" if number == 1 else "s")


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells, in columns as wide as their contents. The last column is left out where it does not fit."""
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    if max(map(len, lines)) <= columns() or len(widths) == 1:
        return lines
    return aligned([row[:-1] for row in rows])


def folded(text: str, stream: TextIO | None, hanging: str = "  ") -> str:
    """A message, whose lines are folded to the width of a terminal; as it is in a pipe or a log, for a search.

    hanging: what the rest of a folded line begins with, behind that line's own margin.
    """
    if width_of(stream) is None:
        return text
    width = columns(stream=stream)
    return "\n".join(_in_lines(line, width, hanging) for line in text.split("\n"))


def say_error(what: object) -> None:
    """A message on standard error: an error, or work left undone.

    npformer's own messages break a line only before two spaces. Any other line break comes from a name in the message
    and is shown as \\n.
    """
    lines = str(what).split("\n  ")
    print(folded("npformer: " + "\n  ".join(map(visible, lines)), sys.stderr), file=sys.stderr)


def _in_lines(line: str, width: int, hanging: str) -> str:
    margin = " " * (len(line) - len(line.lstrip()))
    return line if len(line) <= width else fill(line.strip(), width, margin, margin + hanging)


def paint(text: str, colour: str) -> str:
    """The text in a colour, if text on standard output is coloured."""
    return f"\x1b[{colour}m{text}\x1b[0m" if text and is_coloured() else text
