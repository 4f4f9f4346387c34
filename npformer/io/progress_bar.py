"""A bar for long work: what is done, how much of how much, how long it took, and how long it will take.

    for case in watched(cases, "gradcheck", name=lambda case: case.name): ...

The commands of npformer show bars (``show_bars``). A program that calls npformer sees one alone, that of a long search
for a cause. A bar is drawn on standard error, if that is a terminal, and is removed at the end. In a log, a pipe or a
notebook nothing is written.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any, TextIO, TypeVar

from npformer.io.printable import visible
from npformer.io.terminal import in_notebook, is_terminal

Item = TypeVar("Item")

LEAST = 20  # columns of a bar itself; a note that leaves fewer is shortened or left out
_SHORTEST_NOTE = 10

_shown = False


@contextmanager
def show_bars() -> Iterator[None]:
    """Within this context, long work shows bars."""
    global _shown
    before, _shown = _shown, True
    try:
        yield
    finally:
        _shown = before


class Bar:
    """One bar: ``move`` counts finished work. Without a terminal, or outside ``show_bars``, it does nothing.

    what names the work; total is its amount. stays: whether the last state stays. after: seconds until it is drawn.
    """

    def __init__(
        self, what: str, total: float, stream: TextIO | None = None, done: float = 0, stays: bool = False,
        after: float = 0,
    ) -> None:  # fmt: skip
        self._drawn: Any = None
        shown = stream if stream is not None else sys.stderr if _shown else None
        if shown is not None and is_terminal(shown) and not in_notebook():
            self._drawn = _tqdm()(what, total=total, initial=done, file=shown, leave=stays, delay=after)

    @property
    def is_drawn(self) -> bool:
        """Whether there is a terminal to draw on."""
        return self._drawn is not None

    def move(self, amount: float = 1) -> None:
        """Count finished work."""
        if self._drawn is not None:
            self._drawn.update(amount)

    def reach(self, amount: float) -> None:
        """Say how much is finished in all."""
        if self._drawn is not None:
            self._drawn.update(amount - self._drawn.n)

    def note(self, *notes: str) -> None:
        """Show what is at hand, the most important note first."""
        if self._drawn is not None:
            self._drawn.notes = tuple(map(visible, notes))
            if self._drawn.n == self._drawn.initial:  # what begins may take long
                self._drawn.refresh()
            else:
                self._drawn.update(0)

    def hide(self) -> None:
        """Draw no more, for example because nobody can read it."""
        if self._drawn is not None:
            self._drawn.disable = True

    def close(self) -> None:
        """Remove the bar, or leave its last state."""
        if self._drawn is not None:
            self._drawn.close()

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # a terminal that is gone hides no other error
            self.close()


def watched(items: Collection[Item], what: str, name: Callable[[Item], str] | None = None) -> Iterator[Item]:
    """The items, one by one, with a bar that counts them, if there are several; name says which one is at hand."""
    if len(items) < 2:
        yield from items
        return
    with Bar(what, len(items)) as bar:
        for item in items:
            if name is not None:
                bar.note(name(item))
            yield item
            bar.move()


def say(text: str, stream: TextIO | None = None) -> None:
    """Print text, on standard output or this stream, above the bars that are drawn."""
    shown = sys.stdout if stream is None else stream
    above: AbstractContextManager[Any] = nullcontext() if _class is None else _class.external_write_mode(file=shown)
    with above:
        print(text, file=shown, flush=True)


def line(
    what: str, done: float, total: float, seconds: float, left: float, columns: int, notes: Sequence[str], blocks: str
) -> str:
    """A bar as text, at most so many columns wide: its name, the bar, the amounts, the times, and notes that fit.

    blocks are the characters for an empty cell up to a full one.
    """
    times = clock(seconds) + (f"<{clock(left)}" if math.isfinite(left) else "")
    rest = f"| {done:.0f}/{total:.0f} {times}"
    room = columns - len(rest) - LEAST - 1  # for the name and the notes
    needed = len(what) + 1 + (min(len(notes[0]), _SHORTEST_NOTE) + 2 if notes else 0)
    head = f"{what} " if needed <= room else ""
    room -= len(head)
    for i, note in enumerate(notes):
        shown = note if len(note) + 2 <= room or i else note[: max(room - 3, 0)] + "…"
        if len(shown) + 2 > room or len(shown) < min(len(note), _SHORTEST_NOTE):
            break
        rest, room = f"{rest}  {shown}", room - 2 - len(shown)
    return f"{head}|{cells(done / total if total else 1.0, columns - len(head) - len(rest) - 1, blocks)}{rest}"


def cells(share: float, width: int, blocks: str) -> str:
    """A bar of so many cells, filled to this share."""
    parts = len(blocks) - 1
    full, rest = divmod(int(min(max(share, 0.0), 1.0) * max(width, 0) * parts), parts)
    return (blocks[-1] * full + (blocks[rest] if full < width else "")).ljust(width, blocks[0])


def clock(seconds: float) -> str:
    """A duration as minutes and seconds, or hours, minutes and seconds."""
    minutes, left = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"


def _tqdm() -> Any:
    """tqdm with this module's line; imported here, since it takes a sixth of npformer's import time."""
    global _class
    if _class is None:
        from tqdm import tqdm

        class Line(tqdm):  # type: ignore[misc, unused-ignore]
            def __init__(self, what: str, **options: Any) -> None:
                self.what, self.notes = what, tuple[str, ...]()
                often = {"mininterval": 0.05, "miniters": 0}
                super().__init__(dynamic_ncols=True, **often, **options)

            def __str__(self) -> str:
                now = self.format_dict
                seconds, done, total = now["elapsed"], now["n"], now["total"]
                rate = now["rate"] or ((done - now["initial"]) / seconds if seconds else 0.0)
                left = (total - done) / rate if rate else math.inf
                blocks = " 123456789#" if now["ascii"] else " ▏▎▍▌▋▊▉█"
                return line(self.what, done, total, seconds, left, (now["ncols"] or 80) - 1, self.notes, blocks)

        _class = Line
    return _class


_class: Any = None
