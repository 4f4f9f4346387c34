"""What the ranks of a run exchange: sums of gradients, moments, a few numbers, and the results of dealt work.

Rank r of R owns the r-th part of a flat array (n,), of whole blocks (``optim/blocks.py``). A sum over ranks takes one
exchange of 2·n·(R − 1)/R numbers a rank, as a ring's does: each rank is sent what the others have for its part, adds it
in the tree, and sends the sum to all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import iadd
from typing import TypeVar

import numpy as np

from npformer.backend import Device
from npformer.engine.communicator import Communicator, Request
from npformer.functional.arrays import namespace
from npformer.optim.blocks import BLOCK, add_by_tree, parts_of
from npformer.typing import Array, HostArray

Item = TypeVar("Item")
Result = TypeVar("Result")


class Exchange:
    """One rank's exchanges about flat arrays (size,) that are cut into so many parts, some of them its own."""

    def __init__(self, ranks: Communicator, device: Device, size: int, count: int) -> None:
        self.ranks, self.parts = ranks, parts_of(size, count)
        width = count // ranks.size
        groups = [self.parts[i : i + width] for i in range(0, count, width)]
        self.places = [slice(group[0].start, group[-1].stop) for group in groups]  # of each rank
        self.own, self.place = groups[ranks.rank], self.places[ranks.rank]
        self._device = device
        self._arriving: list[Array] = []

    def add(self, flat: Array, have: Sequence[bool]) -> None:
        """Sum flat (n,) of all ranks that have one, into this rank's place of its own; the rest stays as it is."""
        if self.ranks.size == 1:
            return
        mine = flat[self.place]
        if not self._arriving:
            self._arriving = [namespace(mine).empty_like(mine) for _ in self.places]
        self.ranks.all_to_all([flat[place] for place in self.places], self._arriving).wait()
        total = add_by_tree([x if is_there else None for x, is_there in zip(self._arriving, have, strict=True)], iadd)
        if total is not None:
            mine[...] = total

    def share(self, flat: Array) -> None:
        """Fill flat (n,) with every rank's place."""
        if self.ranks.size > 1:
            views = [flat[place] for place in self.places]
            self.ranks.all_gather(views[self.ranks.rank], views).wait()

    def whole(self, mine: Array) -> Array:
        """The flat array (n,), on every rank, whose place of each rank that one passes."""
        return self._gathered(mine, self.places)

    def blocks(self, sums: Array) -> Array:
        """A number of each block, from those of this rank's blocks."""
        return self._gathered(sums, [slice(x.start // BLOCK, -(-x.stop // BLOCK)) for x in self.places])

    def numbers(self, mine: Sequence[float]) -> tuple[Request, HostArray]:
        """Begin to tell all a few numbers (k,). Returns the request, and (R, k) in float64, which its end fills."""
        every = np.zeros((self.ranks.size, len(mine)))
        return self.ranks.on_host.all_gather(np.asarray(mine, np.float64), list(every)), every

    def deal(self, work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """work(item) of each, in order, on every rank: rank r does items r, r + R, …; results are what JSON knows."""
        rank, size = self.ranks.rank, self.ranks.size
        hands = [[work(item) for i, item in enumerate(items) if i % size == rank]]
        if size > 1:
            hands = self.ranks.gather_json(hands[0])
        return [hands[i % size][i // size] for i in range(sum(map(len, hands)))]

    def _gathered(self, mine: Array, places: Sequence[slice]) -> Array:
        """The flat array whose places the ranks pass."""
        flat = self._device.zeros((places[-1].stop,), mine.dtype.name)
        self.ranks.all_gather(mine, [flat[place] for place in places]).wait()
        return flat
