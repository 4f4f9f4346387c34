"""The beams of a search, all sources side by side: which hypotheses go on, from where, and which have ended.

Each of n sources has w places, the greedy hypothesis in the first for as long as it lasts. A place without
a hypothesis has log P = −∞ and is fed pads; sources that are done, and places that nobody needs, leave by
halves.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from npformer.decoding.opening import Host, Opening
from npformer.decoding.writing import Stop

NOBODY = -np.inf


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
        self.greedy = np.ones(self.sources.size, dtype=bool)  # (n,) whether the first place is its
        self.rows = self.sources  # (n·w,) the state's rows that its next rows go on from
        self.tokens = opening.tokens[self.sources]  # (n·w,) what these are fed; at first (n, prompt)

    def go_on(self, tokens: Host, log_p: Host, eos_id: int, stop: Stop | None) -> None:
        """Choose among proposals (n·w, k), each row's likeliest first, and let go of what has ended."""
        (n, w), k = self.log_p.shape, tokens.shape[1]
        total = (self.log_p[:, :, None] + log_p.reshape(n, w, k)).reshape(n, w * k)
        order = self._ranked(total)  # (n, m)
        self.log_p = np.take_along_axis(total, order, axis=1)
        places = self.beam - np.array([len(self.ended[source]) for source in self.sources])
        self.log_p[np.arange(order.shape[1]) >= places[:, None]] = NOBODY
        parents, chosen = order // k, np.take_along_axis(tokens.reshape(n, w * k), order, axis=1)
        self.texts = np.take_along_axis(self.texts, parents[:, :, None], axis=1)
        np.put_along_axis(self.texts, np.broadcast_to(self.lengths[:, None, None], (*order.shape, 1)),
                          chosen[:, :, None], axis=2)  # fmt: skip
        self.lengths = self.lengths + 1
        self._end(chosen, eos_id, stop)
        self._close(parents + np.arange(n)[:, None] * w, chosen)

    def found(self) -> list[list[tuple[Host, float, float]]]:
        """(tokens, score, log P) of the hypotheses of each source, the best first."""
        return [sorted(each, key=lambda one: -one[1]) for each in self.ended]

    def _ranked(self, total: Host) -> Host:
        """The best proposals of each source, (n, at most beam): the greedy one, then by log P."""
        key = -total
        key[self.greedy, 0] = -np.inf
        return np.argsort(key, axis=1, kind="stable")[:, : self.beam]

    def _end(self, chosen: Host, eos_id: int, stop: Stop | None) -> None:
        """Take hypotheses that end here out of their places."""
        over = (chosen == eos_id) | (self.lengths == self.max_len)[:, None]
        for i, j in np.argwhere(self.log_p > NOBODY):
            text, source = self.texts[i, j, : self.lengths[i]].copy(), self.sources[i]
            if over[i, j] or (stop is not None and stop(text.copy())):
                log_p = float(self.log_p[i, j])
                penalty = self._penalty(self.lengths[i] - self.prompts[source])
                self.ended[source].append((text, log_p / penalty, log_p))
                self.log_p[i, j] = NOBODY
                self.greedy[i] &= j > 0

    def _close(self, rows: Host, chosen: Host) -> None:
        """Let sources go that are done, and places that are empty; rows (n, m) are those the places came from."""
        best = np.array([max((one[1] for one in self.ended[source]), default=NOBODY) for source in self.sources])
        reach = self.log_p.max(axis=1) / self._penalty(self.max_len - self.prompts[self.sources])
        self.log_p[best >= reach] = NOBODY
        alive = self.log_p > NOBODY
        going, width = np.flatnonzero(alive.any(axis=1)), int(alive.sum(axis=1).max(initial=0))
        if 2 * going.size > alive.shape[0]:
            going = np.arange(alive.shape[0])
        if 2 * width > alive.shape[1]:
            width = alive.shape[1]
        first = np.argsort(~alive[going], axis=1, kind="stable")[:, :width]  # places in use, in their order
        pick = going[:, None], first
        self.tokens = np.where(alive[pick], chosen[pick], self.pad_id).ravel()
        self.rows, self.log_p, self.texts = rows[pick].ravel(), self.log_p[pick], self.texts[pick]
        self.sources, self.lengths, self.greedy = self.sources[going], self.lengths[going], self.greedy[going]

    def _penalty(self, length: Any) -> Any:
        """lp of so many tokens."""
        return ((5 + length) / 6) ** self.length_penalty
