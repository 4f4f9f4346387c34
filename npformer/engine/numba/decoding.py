"""Recorded decoding: the kernels of a step that no operation has, and the record of the step.

A record serves all states of as many rows. It finds the state's arrays (``Kept``) where the state has them, and the
position and the newest tokens in ``now``, as on a GPU (``engine/cuda/decoding.cu``):

    now    (6, B)   each row's newest token | whether it goes on | that token's position | its place in the row's own
                    text, which has no padding on the left | in the first column: whether the steps may stop | and how
                    many have been made
    ends   (2,)     the end token and the pad
    rows   (B,)     the parent of each row, before a step of a beam search

A hypothesis stays in its parent's row, or goes to a row that no hypothesis needs. So no row is overwritten before it
has been read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from npformer.backend.workspace import address, empty
from npformer.engine.numba.arguments import (
    Heads,
    OutCache,
    OutDoubleRows,
    OutDoubles,
    OutMask,
    OutRows,
    OutWhole,
    OutWholeRows,
    Rows,
    Whole,
    WholeRows,
)
from npformer.engine.numba.beam_choice import NOBODY, Beams, choose
from npformer.engine.numba.compiling import inlined, kernel, prepare
from npformer.engine.numba.linear import few_rows
from npformer.engine.numba.products import borrow
from npformer.engine.numba.recording import POSITION, Kept, NotRecordable
from npformer.engine.numba.replay import HostDriver
from npformer.engine.numba.rows import as_rows
from npformer.engine.numba.work_sharing import SLOTS, few_rows_by_two, help_with_rows, invite
from npformer.typing import Array, HostArray

LARGE_WEIGHT = 1 << 14  # numbers of a weight
TOKEN, GOES_ON, PLACE, STOPS, MADE = 0, 1, 3, 4, 5


class Step:
    """A step of B rows, and its record."""

    def __init__(self, batch: int, widest: int) -> None:
        self.now, self.ends, self.rows = np.zeros((6, batch), np.int64), np.zeros(2, np.int64), np.arange(batch)
        self._shared, self._half = np.zeros(SLOTS, np.int64), np.empty(0)
        self._widest = widest  # columns of a weight whose products two threads share; 0: none is
        self.given: Callable[[], Any] = lambda: None  # which arrays the record was given last

    def kept(self, arrays: Sequence[HostArray]) -> list[Kept]:
        """The arrays to record with, which others will take the place of."""
        kept = [x.view(Kept) for x in arrays]
        for number, x in enumerate(kept):
            x.number = number
        return kept

    def encodings(self, positions: Array, visible: Array, like: Array) -> Array:
        """Admit the newest tokens. Returns their rows of positions, (B, 1, C)."""
        y = empty(like.shape, like.dtype)
        admit(self.now, self.ends, self.rows, positions, visible, as_rows(y))
        return y

    def choose(self, kind: str, logits: Array, arrays: Sequence[HostArray]) -> None:
        """What follows logits (B, V) in a step of this kind: "likeliest", "search" with its arrays, or nothing."""
        if kind == "likeliest":
            choose_likeliest(logits, self.now, self.ends, *arrays)
        elif kind == "search":
            choose_hypotheses(logits, Beams(*arrays[:6]), *arrays[6:], self.rows, self.now, self.ends)

    def record(self, work: Callable[[], Any], driver: HostDriver) -> bool:
        """Record work, which returns the logits. Returns whether it can be recorded."""
        self._half, driver.few = np.empty(self.rows.size * self._widest, driver.dtype), self._few
        if self._widest:
            prepare([help_with_rows], driver.dtype)  # by this thread
        try:
            record, outputs = driver.record(work)
        except NotRecordable:
            return False
        if record is None:
            return False
        self._record, self.give, (self.logits,) = record, record.give, outputs
        return True

    def _few(self, x: Array, weight: Array, bias: Array, zeros: bool, y: Array) -> None:
        if y.size <= self._half.size and weight.size >= LARGE_WEIGHT:
            few_rows_by_two(x, weight, bias, zeros, y, self._shared, self._half)
        else:
            few_rows(x, weight, bias, zeros, y)

    def run(self, first: HostArray, ends: tuple[int, int], count: int, alone: bool) -> int:
        """Up to count steps from the numbers first (4, B) of now on. Returns how many were made.

        alone: no other thread decodes, so that one may help.
        """
        if alone and self._widest:
            invite(self._shared, self._half, self._record)
        self.now[:STOPS], self.now[STOPS:], self.ends[:] = first, 0, ends
        self.rows[:] = np.arange(self.rows.size)
        self._record.run(count, address(self.now[STOPS]))
        return int(self.now[MADE, 0])


class Newest:
    """The past of a layer while its step is recorded: keys and values (B, H, room, D)."""

    def __init__(self, step: Step, keys: Kept, values: Kept) -> None:
        self._step, self._keys, self._values = step, keys, values
        keys.now = step.now

    def write(self, start: int, keys: Array, values: Array) -> tuple[Array, Array]:
        """``KeyValues.write`` of keys and values (B, H, 1, D) at the position of now. Returns all there is room for."""
        move_rows(self._keys, self._values, self._step.rows, self._step.now)
        write_newest(keys, values, self._keys, self._values, self._step.now)
        return self._keys, self._values


@kernel(calls="decoding")
def admit(
    now: WholeRows, ends: Whole, rows: Whole, positions: Rows, visible: OutMask, y: OutRows,
):  # fmt: skip
    """Move the rows of visible (B, room), mark the newest tokens there, and write their encodings y (B, C)."""
    for r in range(rows.size):
        position = now[POSITION, r]
        if rows[r] != r:
            for t in range(position):
                visible[r, t] = visible[rows[r], t]
    for r in range(rows.size):
        visible[r, now[POSITION, r]] = now[TOKEN, r] != ends[1]
        place = positions[min(now[PLACE, r], positions.shape[0] - 1)]  # a row that has ended goes on behind its end
        for j in range(y.shape[1]):
            y[r, j] = place[j]


@kernel(calls="decoding")
def move_rows(keys: OutCache, values: OutCache, rows: Whole, now: WholeRows):
    """Row r of the caches (B, H, room, D) becomes what row rows[r] was, up to the position of now."""
    keys, values = borrow(keys), borrow(values)
    for r in range(rows.size):
        if rows[r] == r:
            continue
        for h in range(keys.shape[1]):
            for kept in (keys, values):
                to, source = kept[r, h], kept[rows[r], h]
                for t in range(now[POSITION, r]):
                    for j in range(kept.shape[3]):
                        to[t, j] = source[t, j]


@kernel(calls="decoding")
def write_newest(k: Heads, v: Heads, keys: OutCache, values: OutCache, now: WholeRows):
    """Write k and v (B, H, 1, D) into caches (B, H, room, D) at the position of now."""
    for b in range(keys.shape[0]):
        for h in range(keys.shape[1]):
            for j in range(keys.shape[3]):
                keys[b, h, now[POSITION, b], j] = k[b, h, 0, j]
                values[b, h, now[POSITION, b], j] = v[b, h, 0, j]


@inlined
def likeliest(row):
    """The index of the largest number of row (V,), the first of equal ones; the index of a NaN if there is one."""
    best, top = 0, row[0]
    for v in range(1, row.shape[0]):
        if not row[v] <= top and top == top:
            best, top = v, row[v]
    return best


@inlined
def go_on(now, r, token):
    """Token is the newest of row r, at the next position."""
    now[TOKEN, r] = token
    now[POSITION, r] += 1
    now[PLACE, r] += 1


@kernel(calls="decoding")
def choose_likeliest(logits: Rows, now: OutWholeRows, ends: Whole, chosen: OutWholeRows):
    """Each row's likeliest token becomes its newest, or the pad if it has ended; the steps stop if all have.

    chosen (n, B) keeps what each step chose.
    """
    now[STOPS, 0] = 1
    for r in range(logits.shape[0]):
        go_on(now, r, likeliest(logits[r]) if now[GOES_ON, r] else ends[1])
        chosen[now[MADE, 0], r] = now[TOKEN, r]
        now[GOES_ON, r] = now[GOES_ON, r] and now[TOKEN, r] != ends[0]
        now[STOPS, 0] = now[STOPS, 0] and not now[GOES_ON, r]
    now[MADE, 0] += 1


@kernel(calls="beams")
def choose_hypotheses(
    logits: Rows, beams: Beams, best: OutDoubles, longest: OutDoubles, totals: OutDoubleRows,
    all_parents: OutWholeRows, all_tokens: OutWholeRows, rows: OutWhole, now: OutWholeRows, ends: Whole,
):  # fmt: skip
    """Choose as ``beam_choice.choose`` says; log P becomes the new one, and rows (B,) are the parents.

    all_parents and all_tokens (steps, n·w) keep what each step chose. The steps stop if a hypothesis ends, or if none
    of a source can beat its best finished one.
    """
    step, (n, w), log_p = now[MADE, 0], totals.shape, beams.log_p
    parents, tokens = all_parents[step].reshape(totals.shape), all_tokens[step].reshape(totals.shape)
    choose(logits, beams, ends[1], parents, tokens, totals)
    now[MADE, 0] += 1
    for i in range(n):
        top = NOBODY
        for p in range(w):
            log_p[i, p] = totals[i, p]
            top = max(top, totals[i, p])
            rows[i * w + p] = parents[i, p]
            go_on(now, i * w + p, tokens[i, p])
            if totals[i, p] > NOBODY and tokens[i, p] == ends[0]:
                now[STOPS, 0] = 1
        if top > NOBODY and best[i] >= top / longest[i]:
            now[STOPS, 0] = 1
