"""What the ranks of a run exchange: sums of gradients, moments, a few numbers, and the results of dealt work.

Rank r of R owns the r-th part of a flat array (n,), of whole blocks (``optim/blocks.py``). A sum over ranks takes one
exchange of 2·n·(R − 1)/R numbers a rank, as a ring's does: each rank is sent what the others have for its part, adds it
in the tree, and sends the sum to all.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
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
            self.ranks.all_gather(flat[self.place], [flat[place] for place in self.places]).wait()

    def whole(self, mine: Array) -> Array:
        """The flat array (n,), on every rank, whose place of each rank that one passes."""
        flat = self._device.zeros((self.places[-1].stop,), mine.dtype.name)
        flat[self.place] = mine
        self.share(flat)
        return flat

    def blocks(self, sums: Array) -> Array:
        """A number of each block, from those of this rank's blocks."""
        lengths = [-(-(place.stop - place.start) // BLOCK) for place in self.places]
        return self._joined(sums, lengths)

    def numbers(self, mine: Sequence[float]) -> tuple[Request, Callable[[], HostArray]]:
        """Begin to tell all a few numbers (k,) in float64. Returns the request, and what reads (R, k) after its end."""
        every = self._device.zeros((self.ranks.size * len(mine),), "float64")
        views = [every[i * len(mine) : (i + 1) * len(mine)] for i in range(self.ranks.size)]
        request = self.ranks.all_gather(self._device.array(np.asarray(mine), "float64"), views)
        return request, lambda: self._device.host(every).reshape(self.ranks.size, -1)

    def deal(self, items: Iterable[Item], work: Callable[[Item], Result]) -> list[Result]:
        """work(item) of each, in order, on every rank: rank r does items r, r + R, …; results are what JSON knows."""
        rank, size = self.ranks.rank, self.ranks.size
        done = [work(item) for i, item in enumerate(items) if i % size == rank]
        if size == 1:
            return done
        text = self._device.array(np.frombuffer(json.dumps(done).encode(), np.uint8), "uint8")
        request, told = self.numbers([text.shape[0]])
        request.wait()
        lengths = told()[:, 0].astype(int).tolist()
        joined = self._device.host(self._joined(text, lengths)).tobytes()
        ends = list(accumulate(lengths))
        hands = [json.loads(joined[end - length : end]) for end, length in zip(ends, lengths, strict=True)]
        return [hands[i % size][i // size] for i in range(sum(map(len, hands)))]

    def _joined(self, mine: Array, lengths: Sequence[int]) -> Array:
        """The arrays of all ranks, of these lengths, one after the other."""
        if self.ranks.size == 1:
            return mine
        flat = self._device.zeros((sum(lengths),), mine.dtype.name)
        views = [flat[end - length : end] for end, length in zip(accumulate(lengths), lengths, strict=True)]
        self.ranks.all_gather(mine, views).wait()
        return flat
