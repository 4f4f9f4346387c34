"""Training steps whose bits depend on the number of slots and on nothing else: neither on ranks nor on threads.

Each micro-batch is cut into K ranges of rows, the slots; K is a power of two. Rank r of R makes the slots r·K/R and
the K/R − 1 that follow, and shares them out to its threads in the same way.

    leaf      the gradient of one slot: of its micro-batches, one after the other, each times n_i/N, from zero,
              with products on one thread of BLAS, whose bits differ between one and two
    tree      leaves, and losses likewise, are added in the binary tree over the numbers of the slots
              (``optim/blocks.py``); a slot without rows is left out
    norm      of the sum: its squares are added in fixed blocks, and those in a tree
    update    Adam's in K parts of the arena that end where blocks do

A leaf lies in its thread's arena; the first thread's is the model's own, which Adam reads. In the code: ``_leaf``,
``_node``, ``_own_slots``, ``_sum`` over ranks, ``_update``, and there ``Adam.step``.

A thread adds up its leaves as they come, so it has 1 + log₂(K/(R·threads)) arenas of gradients, and a rank one more for
what arrives. With a sharded optimiser (ZeRO, stage 1: Rajbhandari et al. 2019, arXiv:1910.02054) a
rank keeps the moments of its own part alone, updates that, and sends the new values in place of the gradients. All of
it gives the same bits.

Every rank makes the whole batch from the seed and the step, so N, the tokens that count in it, is counted and not asked
for. (The mean of the ranks' means would let a token in a rank full of padding weigh more.)

Rank r of R owns the r-th part of a flat array (n,), of whole blocks (``optim/blocks.py``). A sum over ranks takes one
exchange of 2·n·(R − 1)/R numbers a rank, as a ring's does: each rank is sent what the others have for its part, adds it
in the tree, and sends the sum to all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import add, iadd
from typing import Any, TypeVar

import numpy as np

from npformer.backend import Arena, Device
from npformer.backend.numpy.blas import one_blas_thread
from npformer.engine.capabilities import capabilities_of
from npformer.engine.communicator import Communicator, Request
from npformer.engine.compile_ahead import compile_ahead
from npformer.errors import ConfigError
from npformer.functional.arrays import namespace
from npformer.models import Model
from npformer.optim.blocks import BLOCK, add_by_tree, block_squares, parts_of, tree_sum
from npformer.training.descent import Shard, StepInputs, shards_of
from npformer.training.runner import Shards
from npformer.typing import Array, HostArray

#: The shards of one slot, one for each micro-batch that has rows for it.
Leaf = Sequence[Shard]


class SlotRunner:
    """Makes the steps of one ``TrainStep`` by slots, on one rank of several or alone.

    Raises ConfigError for a number of ranks that does not divide the slots.
    """

    def __init__(self, model: Model, slots: int, ranks: Communicator | None, shards_optimizer: bool) -> None:
        ranks = Communicator() if ranks is None else capabilities_of(model).ranks_on_device(ranks)
        if ranks.size & (ranks.size - 1) or ranks.size > slots:
            raise ConfigError(
                f"processes: expected a power of two that is at most the number of slots, {slots}, got {ranks.size}; "
                "start fewer, or a run with more slots"
            )
        compile_ahead(model, "training")
        self.shards = Shards(model, slots)
        self.exchange = Exchange(ranks, model.backend.device, model.arena.size, slots)
        self._is_sharded = shards_optimizer and ranks.size > 1
        self._width = slots // ranks.size
        self._kept: dict[tuple[int, int], Array] = {}  # sums that wait for others, by thread and leaves

    def make(self, step: Any, inputs: StepInputs) -> tuple[Array, Array | None]:
        """Make this step. Returns its loss (), and the gradient's norm (), if computed.

        Raises RankLostError if another rank has failed, DeviceMemoryError if a GPU's memory is full.
        """
        with step.interrupt, one_blas_thread():
            if self._is_sharded and step.optimizer.is_whole:
                step.optimizer.hold(self.exchange.place, _function(self.exchange.whole))
            loss = self._sum(step, inputs)
            with step.interrupt.firmly():
                work = partial(self._update, step, inputs)
                return loss, capabilities_of(step.model).with_room(work, lambda: True)

    def gather_gradient(self, arena: Arena) -> None:
        """Fill the gradients of the last step with those that other ranks have."""
        if self._is_sharded:
            self.exchange.share(arena.grads)

    def scatter(self, work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """``Exchange.scatter``, with products on one thread of BLAS."""
        with one_blas_thread():
            return self.exchange.scatter(work, items)

    def _sum(self, step: Any, inputs: StepInputs) -> Array:
        """The loss (); the batch's gradient is in the arena, or with a sharded optimiser in this rank's place of it."""
        ranks, flat = self.exchange.ranks, step.model.arena.grads
        loss: Array | None = capabilities_of(step.model).with_room(partial(self._own_slots, step, inputs))
        if ranks.size == 1:
            step.latest_stop_signal = step.stop_signal
            return loss
        request, told = self.exchange.numbers([0.0 if loss is None else float(loss), step.stop_signal])
        have = [self._has_rows(inputs, rank) for rank in range(ranks.size)]
        self.exchange.add(flat, have)
        if not self._is_sharded:
            self.exchange.share(flat)
        request.wait()
        losses, signals = told.T
        step.latest_stop_signal = int(max(signals))
        exact = [step.model.backend.array(loss) if there else None for loss, there in zip(losses, have, strict=True)]
        return add_by_tree(exact, add)

    def _has_rows(self, inputs: StepInputs, rank: int) -> bool:
        """Whether any of a rank's slots has rows."""
        own = slice(rank * self._width, (rank + 1) * self._width)
        return any(rows.start < rows.stop for micro in inputs.shares for rows, _ in micro[own])

    def _own_slots(self, step: Any, inputs: StepInputs) -> Array | None:
        """The loss () of this rank's slots, None if none has rows; the sum of their gradients is in the arena."""
        model, first = step.model, self.exchange.ranks.rank * self._width
        micros = shards_of(inputs, None)
        leaves = [
            [micro[slot] for micro in micros if micro[slot].rows.start < micro[slot].rows.stop]
            for slot in range(first, first + self._width)
        ]
        rows = sum(shard.rows.stop - shard.rows.start for leaf in leaves for shard in leaf[:1])
        most = self.shards.count_for(rows * max(x.shape[1] for x in inputs.inputs))
        threads = 1 << (min(most, self._width).bit_length() - 1)
        models, width = self.shards.begin(step.settings(), threads), self._width // threads
        losses: list[Array | None] = [None] * threads

        def work(thread: int) -> None:
            some = leaves[thread * width : (thread + 1) * width]
            losses[thread] = self._node(thread, models[thread].arena, some)

        capabilities_of(model).in_threads([partial(work, thread) for thread in range(threads)])
        gradients = [None if loss is None else one.arena.grads for loss, one in zip(losses, models, strict=True)]
        total = add_by_tree(gradients, iadd)
        if total is not None and total is not model.arena.grads:
            model.arena.grads[...] = total
        return add_by_tree(losses, add)

    def _node(self, thread: int, arena: Arena, leaves: Sequence[Leaf]) -> Array | None:
        """The loss () of a thread's leaves, None if none has rows; the sum of their gradients is in its arena."""
        if len(leaves) == 1:
            return self._leaf(thread, arena, leaves[0]) if leaves[0] else None
        half = len(leaves) // 2
        left, right = leaves[:half], leaves[half:]
        if not (any(left) and any(right)):
            return self._node(thread, arena, left if any(left) else right)
        loss: Any = self._node(thread, arena, left)
        if (thread, half) not in self._kept:
            self._kept[thread, half] = namespace(arena.grads).empty_like(arena.grads)
        kept = self._kept[thread, half]
        kept[...] = arena.grads
        loss = loss + self._node(thread, arena, right)
        arena.grads += kept
        return loss

    def _leaf(self, thread: int, arena: Arena, leaf: Leaf) -> Array:
        arena.zero_grad()
        losses = [self.shards.loss_of(thread, shard) for shard in leaf]
        return sum(losses[1:], start=losses[0])

    def _update(self, step: Any, inputs: StepInputs) -> Array | None:
        """Clip and update, this rank's parts or all. Returns the norm () before clipping, if it was taken."""
        arena, clip_norm, exchange, norm = step.model.arena, step.clip_norm, self.exchange, None
        parts = exchange.own if self._is_sharded else exchange.parts
        if clip_norm is not None:
            xp = namespace(arena.grads)
            squares = xp.concat([block_squares(arena, part) for part in parts])
            norm = xp.sqrt(tree_sum(exchange.blocks(squares) if self._is_sharded else squares))
            if not math.isinf(clip_norm):  # inf/inf would be NaN
                longest = xp.where(norm > clip_norm, norm, xp.full_like(norm, clip_norm))
                for part in parts:
                    arena.grads[part] *= clip_norm / longest
        step.optimizer.step(inputs.rates.lr, parts)
        if self._is_sharded:
            exchange.share(arena.values)
        return norm


def _function(method: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """The method as a function, which the copy of an optimiser shares."""
    return lambda part: method(part)


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

    def scatter(self, work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """work(item) of each, in order, on every rank: rank r does items r, r + R, …; results are what JSON knows."""
        rank, size = self.ranks.rank, self.ranks.size
        parts = [[work(item) for i, item in enumerate(items) if i % size == rank]]
        if size > 1:
            parts = self.ranks.gather_json(parts[0])
        return [parts[i % size][i // size] for i in range(sum(map(len, parts)))]

    def _gathered(self, mine: Array, places: Sequence[slice]) -> Array:
        """The flat array whose places the ranks pass."""
        flat = self._device.zeros((places[-1].stop,), mine.dtype.name)
        self.ranks.all_gather(mine, [flat[place] for place in places]).wait()
        return flat
