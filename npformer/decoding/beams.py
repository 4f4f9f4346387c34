"""The beams of a search over all sources: which hypotheses continue, from which parents, and which have ended.

Each of n sources has w slots. An empty slot is fed pads. Finished sources and unused slots are removed
once they are half of all. ``choice.py`` chooses the hypotheses that continue, and their slots.

No text is stored while it grows: each step records the parent row and the token of every row. The texts are
read backwards from these records when the search is over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from npformer.backend import Backend
from npformer.decoding.choice import NOBODY, choose
from npformer.decoding.opening import Opening
from npformer.decoding.writing import AT_ONCE, STEPS, Stop
from npformer.layers import DecodeState
from npformer.typing import Array, HostArray

LENGTH_PENALTY = 0.6  # the default α
#: ``FastEngine.search`` of a model: (tokens, state, (log P, greedy, room, best, longest), count, eos_id) -> (rows,
#: tokens).
Search: TypeAlias = Callable[
    [HostArray, DecodeState, tuple[HostArray, ...], int, int], tuple[HostArray, HostArray] | None
]


class Ended(NamedTuple):
    """The hypotheses (m,) that ended at one step."""

    sources: HostArray  # of all
    rows: HostArray  # their parents: rows of the step before
    tokens: HostArray  # their last ones
    scores: HostArray
    log_p: HostArray


class Beams:
    """The unfinished hypotheses; ``rows`` and ``tokens`` are the inputs of the next step."""

    def __init__(self, opening: Opening, beam: int, length_penalty: float, pad_id: int) -> None:
        self.length_penalty, self.pad_id = length_penalty, pad_id
        self.max_len = opening.texts.shape[1]
        self.prompts = [text[:length] for text, length in zip(opening.texts, opening.lengths, strict=True)]
        self.sources = np.flatnonzero(opening.lengths < self.max_len)  # (n,) indices of the unfinished ones
        n = self.sources.size
        self.most = self.max_len - opening.lengths[self.sources]  # (n,) tokens to choose
        self.longest = penalty(self.most, length_penalty)  # (n,)
        self.log_p = np.zeros((n, 1))  # (n, w), NOBODY in an empty slot
        self.greedy = np.zeros(n, dtype=np.int64)  # (n,) the slot of the greedy hypothesis, or −1
        self.room = np.full(n, beam)  # (n,) how many more may end
        self.best = np.full(n, NOBODY)  # (n,) score
        self.ended: list[tuple[Ended, int]] = []  # and after how many steps
        self.steps: list[tuple[HostArray, HostArray]] = []  # rows and tokens of each so far
        self.rows = self.sources  # (n·w,) of the state, which its next ones go on from
        self.tokens = opening.tokens[self.rows]  # (n·w,) what these are fed; at first (n, prompt)

    def go_on(self, logits: Array, backend: Backend, eos_id: int, stop: Stop | None) -> None:
        """Choose the hypotheses that continue, given logits (n·w, V), and remove those that have ended."""
        rows, newest, self.log_p, self.greedy = choose(logits, self.log_p, self.greedy, self.room, self.pad_id, backend)
        self._settle(rows, newest, eos_id, stop)

    def go_on_at_once(self, search: Search, state: DecodeState, eos_id: int) -> bool:
        """go_on for several steps in one call; False if it makes no step."""
        going = (self.log_p > NOBODY).any(axis=1)
        steps = min(max(AT_ONCE // self.rows.size, STEPS), int(self.most[going].min()) - len(self.steps))
        steps_made = search(
            self.tokens, state, (self.log_p, self.greedy, self.room, self.best, self.longest), steps, eos_id
        )
        if steps_made is None:
            return False
        *before, (rows, newest) = zip(*steps_made, strict=True)
        self.steps += before
        self._settle(rows.reshape(self.log_p.shape), newest.reshape(self.log_p.shape), eos_id, None)
        return True

    def _settle(self, rows: HostArray, newest: HostArray, eos_id: int, stop: Stop | None) -> None:
        """Remove the hypotheses that ended with a choice (n, w), and set the inputs of the next step."""
        self._end(rows, newest, eos_id, stop)
        alive = self.log_p > NOBODY
        if not alive.all():
            newest[~alive] = self.pad_id
            self.greedy[~alive[np.arange(rows.shape[0]), self.greedy]] = -1
            rows, newest = self._leave(alive, rows, newest)
        self.rows, self.tokens = rows.ravel(), newest.ravel()
        self.steps.append((self.rows, self.tokens))

    def hypotheses(self) -> list[list[tuple[HostArray, float, float]]]:
        """(tokens, score, log P) of the hypotheses of each source, the best first."""
        texts = [[] if prompt.size < self.max_len else [(prompt, 0.0, 0.0)] for prompt in self.prompts]
        if self.ended:
            counts = np.concatenate([np.full(ended.sources.size, steps) for ended, steps in self.ended])
            sources, rows, tokens, scores, log_p = map(np.concatenate, zip(*(e for e, _ in self.ended), strict=True))
            order = np.argsort(-scores, kind="stable")
            written = self._written(rows[order], tokens[order], counts[order])
            columns = (x[order].tolist() for x in (sources, counts, scores, log_p))
            for text, source, count, score, own_log_p in zip(written, *columns, strict=True):
                prompt = self.prompts[source]
                whole = np.concatenate([prompt, text[:count]]) if prompt.size else text[:count].copy()
                texts[source].append((whole, score, own_log_p))
        return texts

    def _end(self, rows: HostArray, newest: HostArray, eos_id: int, stop: Stop | None) -> None:
        """Move ended hypotheses out of their slots; drop a source's others if none can exceed its best ended one."""
        steps = len(self.steps) + 1
        over = (newest == eos_id) | (self.most == steps)[:, None]
        over &= self.log_p > NOBODY
        if stop is not None:
            self._ask(stop, over, rows, newest, steps)
        if over.any():
            source, log_p = over.nonzero()[0], self.log_p[over]
            scores = log_p / penalty(steps, self.length_penalty)
            self.ended.append((Ended(self.sources[source], rows[over], newest[over], scores, log_p), steps))
            np.maximum.at(self.best, source, scores)
            self.room = self.room - over.sum(axis=1)
            self.log_p[over] = NOBODY
        if self.ended:
            self.log_p[self.best >= self.log_p.max(axis=1) / self.longest] = NOBODY

    def _ask(self, stop: Stop, over: HostArray, rows: HostArray, newest: HostArray, steps: int) -> None:
        """Set over (n, w) for the unfinished texts for which stop returns True."""
        going = (self.log_p > NOBODY) & ~over
        texts = self._written(rows[going], newest[going], np.full(np.count_nonzero(going), steps))
        prompts = [self.prompts[self.sources[source]] for source in np.nonzero(going)[0]]
        over[going] = [bool(stop(np.concatenate(parts))) for parts in zip(prompts, texts, strict=True)]

    def _leave(self, alive: HostArray, rows: HostArray, tokens: HostArray) -> tuple[HostArray, HostArray]:
        """rows and tokens (n, w) without finished sources and empty slots."""
        used = alive.sum(axis=1)
        (n, width), going, fewer = alive.shape, used.nonzero()[0], max(1, int(used.max()))
        few_sources, few_places = 2 * going.size <= n, 2 * fewer <= width
        if not (few_sources or few_places):
            return rows, tokens
        going = going if few_sources else np.arange(n)
        kept = np.arange(width)[None, :]
        if few_places:  # those in use, in their order, then others
            kept = np.argsort(~alive[going], axis=1, kind="stable")[:, :fewer]
        rows, tokens, self.log_p = (x[going[:, None], kept] for x in (rows, tokens, self.log_p))
        greedy = self.greedy[going]
        self.greedy = np.where(greedy >= 0, np.argmax(kept == greedy[:, None], axis=1), -1)
        for name in ("sources", "most", "longest", "room", "best"):
            setattr(self, name, getattr(self, name)[going])
        return rows, tokens

    def _written(self, rows: HostArray, tokens: HostArray, steps: HostArray) -> HostArray:
        """The tokens that hypotheses (m,) chose, (m, most steps): parents are rows, after steps; tokens come last."""
        text, now = np.arange(rows.size), rows.copy()
        written = np.full((rows.size, int(steps.max(initial=0))), self.pad_id, dtype=np.int64)
        written[text, steps - 1] = tokens
        for step in range(written.shape[1] - 2, -1, -1):
            on = text[steps > step + 1]
            before, chosen = self.steps[step]
            written[on, step] = chosen[now[on]]
            now[on] = before[now[on]]
        return written


def penalty(length: Any, alpha: float) -> Any:
    """lp(n) = ((5 + n)/6)^α for a length, or an array of them."""
    return ((5 + length) / 6) ** alpha
