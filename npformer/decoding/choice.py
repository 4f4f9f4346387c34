"""The choice of a beam after a step: the likeliest proposals of its hypotheses continue.

The likeliest token of the greedy hypothesis comes first; then log P decides, and ties go by slot. A
hypothesis stays in the slot of its parent, unless a better one does. So few of the cached keys
and values have to move.
"""

from __future__ import annotations

import numpy as np

from npformer.backend import Backend
from npformer.decoding.best_tokens import best_tokens
from npformer.decoding.opening import Host
from npformer.typing import Array

NOBODY = float("-inf")  # the log P of an empty slot


def choose(
    logits: Array, log_p: Host, greedy: Host, room: Host, pad_id: int, backend: Backend
) -> tuple[Host, Host, Host, Host]:
    """The hypotheses that continue in the beams of n sources: (rows, tokens, log P (n, width), greedy (n,)).

    logits (n·w, V) follow hypotheses of log_p (n, w), NOBODY in an empty slot. greedy (n,) are the slots of the greedy
    hypotheses, −1: none. room (n,) limits how many of each source may continue. rows are the parents among the n·w;
    an empty slot is its own parent and is fed a pad. width is w, or more if room allows more.
    """
    (n, w), most, vocab_size = log_p.shape, int(room.max()), logits.shape[1]
    width = max(w, min(w * vocab_size, most))
    if backend.beam_choice is not None:
        found = backend.beam_choice(logits, log_p, greedy, room, width, pad_id)
        if found is not None:
            return found
    parents, chosen, total = _ranked(*best_tokens(logits, most, backend), log_p, greedy, room)
    there = total > NOBODY  # a NaN counts as empty, too
    places = seats(parents, there, width)
    source, one = there.nonzero()
    to = source, places[source, one]
    rows = np.arange(n)[:, None] * w + np.arange(width) % w
    tokens, onward = np.full((n, width), pad_id, dtype=np.int64), np.full((n, width), NOBODY)
    rows[to], tokens[to], onward[to] = source * w + parents[source, one], chosen[source, one], total[source, one]
    return rows, tokens, onward, np.where((greedy >= 0) & there[:, 0], places[:, 0], -1)


def _ranked(tokens: Host, proposed: Host, log_p: Host, greedy: Host, room: Host) -> tuple[Host, Host, Host]:
    """Slots, tokens and log P (n, m) of each source's best among proposals (n·w, k), each row's likeliest first."""
    (n, w), k = log_p.shape, tokens.shape[1]
    total = (log_p[:, :, None] + proposed.reshape(n, w, k)).reshape(n, w * k)
    key = -total
    led = (greedy >= 0).nonzero()[0]
    key[led, greedy[led] * k] = NOBODY
    order = np.argsort(key, axis=1, kind="stable")[:, : int(room.max())]
    total = np.take_along_axis(total, order, axis=1)
    total[np.arange(order.shape[1]) >= room[:, None]] = NOBODY
    return order // k, np.take_along_axis(tokens.reshape(n, w * k), order, axis=1), total


def seats(parents: Host, there: Host, width: int) -> Host:
    """The slots, out of width, of hypotheses (n, m) whose parents are in the slots parents, the best first.

    The first child of a parent stays in its slot, the others take empty ones. there (n, m) is False for no hypothesis.
    """
    m = parents.shape[1]
    siblings = (parents[:, :, None] == parents[:, None, :]) & there[:, None, :]
    moves = (siblings & (np.arange(m)[:, None] > np.arange(m))).any(axis=2) & there  # not the first child
    taken = np.zeros((parents.shape[0], width), dtype=bool)
    source, one = (there & ~moves).nonzero()
    taken[source, parents[source, one]] = True
    empty = np.argsort(taken, axis=1, kind="stable")  # the empty slots first, in their order
    return np.where(moves, np.take_along_axis(empty, np.cumsum(moves, axis=1) - 1, axis=1), parents)
