"""A bar for long work: what is done, how much of how much, how long it took, and how long it will take.

    for case in watched(cases, "gradcheck", name=lambda case: case.name): ...

The commands of npformer show bars (``show_bars``). A program that calls npformer sees one alone, that of a long search
for a cause. A bar is drawn on standard error, if that is a terminal, and is removed at the end. In a log, a pipe or a
notebook nothing is written.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any, TextIO, TypeVar

from npformer.io.printable import visible
from npformer.io.terminal import in_notebook, is_terminal

Item = TypeVar("Item")

FORM = "{desc} |{bar}| {n:.0f}/{total:.0f} {elapsed}<{remaining}{postfix}"
LONGEST = 24  # characters of notes

_class: Any = None  # tqdm, once a bar is drawn
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
            global _class
            from tqdm import tqdm  # here, since it takes a sixth of npformer's import time

            _class = tqdm
            self._drawn = tqdm(
                desc=what, total=total, initial=done, file=shown, leave=stays, delay=after, dynamic_ncols=True,
                mininterval=0.05, miniters=0, bar_format=FORM,
            )  # fmt: skip

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
            begins = self._drawn.n == self._drawn.initial  # and may take long
            self._drawn.set_postfix_str(visible("  ".join(notes))[:LONGEST], refresh=begins)

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


def clock(seconds: float) -> str:
    """A duration as minutes and seconds, or hours, minutes and seconds."""
    minutes, left = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"
