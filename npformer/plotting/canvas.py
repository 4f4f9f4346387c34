"""What every picture needs around it: settings of its own, and a way to the disk that harms nothing.

A reader's matplotlibrc may ask for LaTeX, another font or other margins; pictures of a run should look the
same everywhere, so each is drawn and written inside `drawing()`, under matplotlib's own defaults. Only the
Agg canvas is used, never pyplot: no window, no state shared with the program around us.
"""

from __future__ import annotations

import os
import secrets
import stat
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import Any, TypeAlias

import matplotlib.style
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from npformer.errors import OutputError

#: Keyword arguments that say how a text or a line looks.
Style: TypeAlias = dict[str, Any]

_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


@contextmanager
def drawing() -> Iterator[None]:
    """Default settings, and no warning for a character that the font lacks (a box is drawn for it)."""
    with matplotlib.style.context("default"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from")
        warnings.filterwarnings("ignore", message=r"Matplotlib currently does not support .* natively")
        yield


def new_figure(width: float, height: float, dpi: float) -> Figure:
    """An empty white figure of width × height inches, bound to the Agg canvas."""
    figure = Figure(figsize=(width, height), dpi=dpi, facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def png_bytes(figure: Figure) -> bytes:
    """The figure as PNG; equal figures give equal bytes (no date, no program version inside)."""
    buffer = BytesIO()
    with drawing():
        figure.savefig(buffer, format="png", dpi=figure.dpi, metadata={"Software": None})
    return buffer.getvalue()


@contextmanager
def _told_as_output_error(path: Path) -> Iterator[None]:
    """Let what the system refuses appear as an OutputError that names the picture's path."""
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"picture: could not write '{path}' ({error.strerror}); choose a place that is writable"
        ) from error


def check_place(path: Path) -> None:
    """Raise OutputError unless a picture may be written at path.

    A picture made earlier may be replaced, since it can be drawn again; nothing else may.
    """
    with _told_as_output_error(path):
        if path.suffix.lower() != ".png":
            raise OutputError(f"picture: expected a file name ending in .png, got '{path}'; rename it")
        if not path.parent.is_dir():
            raise OutputError(f"picture: expected an existing folder, got '{path.parent}'; create it first")
        if os.path.lexists(path) and not _is_picture(path):
            raise OutputError(f"picture: expected a free name, but '{path}' is there; choose another, or move it away")


def write_picture(figure: Figure, path: Path) -> None:
    """Write the figure to path as PNG: all of it or nothing. Raises OutputError if that cannot be done."""
    check_place(path)
    data = png_bytes(figure)
    half_written = path.with_name(f".tmp-{path.name[:40]}-{secrets.token_hex(6)}")  # a run's next resume removes it
    with _told_as_output_error(path):
        try:
            with half_written.open("xb") as file:
                file.write(data)
            os.replace(half_written, path)
        except BaseException:
            with suppress(OSError):  # the first error is the one to tell
                half_written.unlink()
            raise


def _is_picture(path: Path) -> bool:
    """Whether a picture is there itself: what a link leads to is not asked, and a pipe not waited for."""
    if not stat.S_ISREG(path.lstat().st_mode):
        return False
    with path.open("rb") as file:
        return file.read(len(_PNG_SIGNATURE)) == _PNG_SIGNATURE
