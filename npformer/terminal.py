"""What is known of a terminal: whether there is one, how wide it is, and whether its text is coloured.

Colour says right, wrong or not yet, and only repeats what the words say, so nothing is lost without it. "auto" colours
the text on a terminal, unless the environment has NO_COLOR (https://no-color.org) or TERM=dumb.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from typing import TextIO

COLOURS = ("auto", "always", "never")
GREEN, RED, YELLOW = "32", "31", "33"  # the codes of ANSI
NARROWEST, USUAL, WIDEST = 60, 80, 100  # columns of prose; the usual ones where there is no terminal

_chosen = "auto"
_CODES = re.compile("\x1b\\[[0-9;]*m")


def choose_colour(choice: str) -> None:
    """Colour texts from now on: "auto", "always" or "never"."""
    global _chosen
    _chosen = choice


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a bar can move there: a terminal that can go back to the start of a line."""
    return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"


def is_coloured(stream: TextIO | None = None) -> bool:
    """Whether text on this stream (default: standard output) is coloured."""
    if _chosen != "auto":
        return _chosen == "always"
    return is_terminal(sys.stdout if stream is None else stream) and not os.environ.get("NO_COLOR")


def columns(widest: int = WIDEST) -> int:
    """The columns for prose on standard output: the terminal's, from 60 to 100; 80 in a pipe or a file.

    widest: another limit, for tables and code.
    """
    if sys.stdout is None or not sys.stdout.isatty():
        return USUAL
    return min(max(shutil.get_terminal_size((USUAL, 24)).columns, NARROWEST), widest)


def paint(text: str, colour: str, stream: TextIO | None = None) -> str:
    """The text in a colour, if text on this stream is coloured."""
    return f"\x1b[{colour}m{text}\x1b[0m" if text and is_coloured(stream) else text


def unpainted(text: str) -> str:
    """The text without colours."""
    return _CODES.sub("", text)
