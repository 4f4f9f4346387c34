"""The rooms of the museum, one file each: exhibits as data."""

from npformer.lab.museum.exhibit import Exhibit
from npformer.lab.museum.rooms import attention, layer, loss, operation, optimiser, training, wiring

#: Every bug, in the order of the rooms.
BUGS: tuple[Exhibit, ...] = (
    *operation.EXHIBITS, *attention.EXHIBITS, *layer.EXHIBITS, *wiring.EXHIBITS,
    *loss.EXHIBITS, *optimiser.EXHIBITS, *training.EXHIBITS,
)  # fmt: skip

__all__ = ["BUGS"]
