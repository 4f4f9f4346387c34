"""The rooms of the museum, one file each: exhibits as data."""

import difflib

from npformer.errors import ConfigError
from npformer.lab.museum.exhibit import Exhibit
from npformer.lab.museum.rooms import attention, empty, layer, loss, maps, optimiser, rows, training, wiring

#: Every exhibit, in the order of the rooms.
EXHIBITS: tuple[Exhibit, ...] = (
    *rows.EXHIBITS, *maps.EXHIBITS, *attention.EXHIBITS, *layer.EXHIBITS, *wiring.EXHIBITS,
    *loss.EXHIBITS, *optimiser.EXHIBITS, *training.EXHIBITS, *empty.EXHIBITS,
)  # fmt: skip

__all__ = ["EXHIBITS", "exhibit"]


def exhibit(name: str) -> Exhibit:
    """The exhibit of this id. Raises ConfigError, naming the nearest, if there is none."""
    by_id = {one.id: one for one in EXHIBITS}
    if name in by_id:
        return by_id[name]
    near = difflib.get_close_matches(name, by_id, n=3, cutoff=0.3)
    raise ConfigError(
        f"exhibit: expected an id that `npformer museum list` shows, got {name!r}"
        + (f"; did you mean {' or '.join(near)}?" if near else "")
    )
