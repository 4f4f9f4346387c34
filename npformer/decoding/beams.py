"""The beams of a search, all sources side by side: which hypotheses go on, from where, and which have ended.

Each of n sources has w places. A place without a hypothesis has log P = −∞ and is fed pads; sources that
are done, and places that nobody needs, leave by halves. A hypothesis stays in the place of the one that it
continues, unless a better one does: so few of the keys and values that a model keeps have to move.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from npformer.decoding.opening import Host, Opening
from npformer.decoding.writing import Stop

NOBODY = -np.inf  # its log P
NOWHERE = -1


class Beams:
    """Hypotheses under way; ``rows`` and ``tokens`` say what the next step computes."""

    def __init__(self, opening: Opening, beam: int, length_penalty: float, pad_id: int) -> None:
        self.beam, self.length_penalty, self.pad_id = beam, length_penalty, pad_id
        self.prompts = opening.lengths.copy()  # (B,) tokens that nobody chose
        self.max_len = opening.texts.shape[1]
        full = self.prompts == self.max_len
        self.ended: list[list[tuple[Host, float, float]]] = [
            [(text, 0.0, 0.0)] if whole else [] for text, whole in zip(opening.texts, full, strict=True)
        ]
        self.sources = np.flatnonzero(~full)  # (n,) of the B
        self.texts = opening.texts[self.sources, None, :]  # (n, w, max_len)
        self.lengths = opening.lengths[self.sources]  # (n,) of every text of a source
        self.log_p = np.zeros((self.sources.size, 1))  # (n, w)
        self.greedy = np.zeros(self.sources.size, dtype=np.int64)  # (n,) its place, or NOWHERE
        self.rows = self.sources  # (n·w,) the state's rows that its next rows go on from
        self.tokens = opening.tokens[self.sources]  # (n·w,) what these are fed; at first (n, prompt)

    def go_on(self, tokens: Host, log_p: Host, eos_id: int, stop: Stop | None) -> None:
        """Choose among proposals (n·w, k), each row's likeliest first, and let go of what has ended."""
        (n, w), k = self.log_p.shape, tokens.shape[1]
        each = np.arange(n)[:, None]
        total = (self.log_p[:, :, None] + log_p.reshape(n, w, k)).reshape(n, w * k)
        order = self._ranked(total, k)  # (n, m)
        best = total[each, order]
        best[np.arange(order.shape[1]) >= self._free()[:, None]] = NOBODY
        parents, alive = order // k, best > NOBODY
        width = max(w, int(alive.sum(axis=1).max()))
        places = seats(parents, alive, width)  # (n, m)
        came = np.broadcast_to(np.arange(width + 1) % w, (n, width + 1)).copy()  # (n, width + 1), the last for nobody
        chosen = np.full(came.shape, self.pad_id)
        self.log_p = np.full(came.shape, NOBODY)
        came[each, places], chosen[each, places] = parents, tokens.reshape(n, w * k)[each, order]
        self.log_p[each, places] = best
        came, chosen, self.log_p = came[:, :-1], chosen[:, :-1], self.log_p[:, :-1]
        self.texts = self.texts[each, came]
        self.texts[each, np.arange(width), np.minimum(self.lengths, self.max_len - 1)[:, None]] = chosen
        self.lengths = np.minimum(self.lengths + 1, self.max_len)  # sources that are done may still be here
        self.greedy = np.where((self.greedy > NOWHERE) & alive[:, 0], places[:, 0], NOWHERE)
        self._end(chosen, eos_id, stop)
        self._close(came + each * w, chosen)

    def found(self) -> list[list[tuple[Host, float, float]]]:
        """(tokens, score, log P) of the hypotheses of each source, the best first."""
        return [sorted(each, key=lambda one: -one[1]) for each in self.ended]

    def _ranked(self, total: Host, k: int) -> Host:
        """The best proposals of each source, (n, at most beam): the greedy one, then by log P."""
        key: Host = -total
        has = np.flatnonzero(self.greedy > NOWHERE)
        key[has, self.greedy[has] * k] = -np.inf
        return np.argsort(key, axis=1, kind="stable")[:, : self.beam]

    def _free(self) -> Host:
        """How many hypotheses each source may have under way, (n,)."""
        return self.beam - np.array([len(self.ended[source]) for source in self.sources])

    def _end(self, chosen: Host, eos_id: int, stop: Stop | None) -> None:
        """Take hypotheses that end here out of their places."""
        alive = self.log_p > NOBODY
        over = (chosen == eos_id) | (self.lengths == self.max_len)[:, None]
        for i, j in np.argwhere(alive & over if stop is None else alive):
            text, source = self.texts[i, j, : self.lengths[i]].copy(), self.sources[i]
            if over[i, j] or (stop is not None and stop(text.copy())):
                log_p = float(self.log_p[i, j])
                penalty = self._penalty(self.lengths[i] - self.prompts[source])
                self.ended[source].append((text, log_p / penalty, log_p))
                self.log_p[i, j] = NOBODY
                if self.greedy[i] == j:
                    self.greedy[i] = NOWHERE

    def _close(self, rows: Host, chosen: Host) -> None:
        """Let sources go that are done, and places that are empty; rows (n, m) are those the places came from."""
        best = np.array([max((one[1] for one in self.ended[source]), default=NOBODY) for source in self.sources])
        reach = self.log_p.max(axis=1) / self._penalty(self.max_len - self.prompts[self.sources])
        self.log_p[best >= reach] = NOBODY
        alive = self.log_p > NOBODY
        going, width = np.flatnonzero(alive.any(axis=1)), max(1, int(alive.sum(axis=1).max()))
        if 2 * going.size > alive.shape[0]:
            going = np.arange(alive.shape[0])
        if 2 * width > alive.shape[1]:
            width = alive.shape[1]
        first = np.broadcast_to(np.arange(width), (going.size, width))
        if width < alive.shape[1]:
            first = np.argsort(~alive[going], axis=1, kind="stable")[:, :width]  # places in use, in their order
        pick = going[:, None], first
        self.tokens = np.where(alive[pick], chosen[pick], self.pad_id).ravel()
        self.rows, self.log_p, self.texts = rows[pick].ravel(), self.log_p[pick], self.texts[pick]
        at = (first == self.greedy[going, None]) & alive[pick]
        self.greedy = np.where(at.any(axis=1), at.argmax(axis=1), NOWHERE)
        self.sources, self.lengths = self.sources[going], self.lengths[going]

    def _penalty(self, length: Any) -> Any:
        """lp of so many tokens."""
        return ((5 + length) / 6) ** self.length_penalty


def seats(parents: Host, alive: Host, width: int) -> Host:
    """Where hypotheses go, (n, m), each row's best first, that continue those at places parents (n, m).

    The first of siblings stays, the others take what is empty. Not alive: place width, which nobody has.
    """
    found = []  # by lists: few numbers, for which arrays take longer
    for row, lives in zip(parents.tolist(), alive.tolist(), strict=True):
        going = [j for j, lives_on in enumerate(lives) if lives_on]
        first = {row[j]: j for j in reversed(going)}  # of each parent's children the best
        empty = iter([place for place in range(width) if place not in first])
        places = {j: row[j] if first[row[j]] == j else next(empty) for j in going}
        found.append([places.get(j, width) for j in range(len(row))])
    return np.array(found, dtype=np.int64).reshape(parents.shape)
