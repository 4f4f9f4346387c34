"""The categories of the museum, one file each: bugs as data."""

import difflib
from dataclasses import replace

from npformer.errors import ConfigError
from npformer.lab.museum.bug import Bug
from npformer.lab.museum.bugs import attention, empty, layer, loss, maps, optimiser, rows, training, wiring

#: Every bug, category by category.
BUGS: tuple[Bug, ...] = tuple(
    replace(bug, category=file.CATEGORY)
    for file in (rows, maps, attention, layer, wiring, loss, optimiser, training, empty)
    for bug in file.BUGS
)

__all__ = ["BUGS", "bug"]


def bug(name: str) -> Bug:
    """The bug of this id. Raises ConfigError, naming the nearest, if there is none."""
    by_id = {one.id: one for one in BUGS}
    if name in by_id:
        return by_id[name]
    near = difflib.get_close_matches(name, by_id, n=3, cutoff=0.3)
    raise ConfigError(
        f"bug: expected an id that `npformer museum list` shows, got {name!r}"
        + (f"; did you mean {' or '.join(near)}?" if near else "")
    )
