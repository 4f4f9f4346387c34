"""The beams of a search, all sources side by side: which hypotheses go on, from where, and which have ended.

Each of n sources has w places. An empty place is fed pads; sources that are done, and places that nobody needs,
leave by halves. A hypothesis stays in the place of the one that it continues, unless a better one does: so few of
the keys and values that a model keeps have to move.

There are few hypotheses, so they are kept in lists, for which arrays would take longer; and a text is a chain of
tokens, each of which knows the one before, so that siblings share what they have in common.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np

from npformer.decoding.opening import Host, Opening
from npformer.decoding.writing import Stop

NOBODY = float("-inf")  # the log P of a hypothesis that is none

#: A text's last token behind those before it; None: nothing has been chosen yet.
Chain: TypeAlias = "tuple[Chain, int] | None"


class Proposal(NamedTuple):
    """One way to go on."""

    log_p: float
    place: int  # of the hypothesis that it continues
    chain: Chain


@dataclass
class Source:
    """One source's hypotheses."""

    prompt: Host  # (P,) tokens that nobody chose
    places: list[Proposal | None]  # (w,) those under way; each one's place is where it came from
    greedy: int | None  # the place of the greedy one
    ended: list[tuple[Host, float, float]] = field(default_factory=list)  # tokens, score, log P


class Beams:
    """Hypotheses under way; ``rows`` and ``tokens`` say what the next step computes."""

    def __init__(self, opening: Opening, beam: int, length_penalty: float, pad_id: int) -> None:
        self.beam, self.length_penalty, self.pad_id = beam, length_penalty, pad_id
        self.max_len = opening.texts.shape[1]
        prompts = [text[:length] for text, length in zip(opening.texts, opening.lengths, strict=True)]
        self.all = [Source(prompt, [Proposal(0.0, 0, None)], 0) for prompt in prompts]
        for source in self.all:
            if source.prompt.size == self.max_len:
                source.ended.append((source.prompt, 0.0, 0.0))
        self.under_way = [source for source in self.all if not source.ended]  # n, of w places each
        self.chosen = 0  # tokens of each of them
        self.rows = np.flatnonzero(
            opening.lengths < self.max_len
        )  # (n·w,) of the state, which its next ones go on from
        self.tokens = opening.tokens[self.rows]  # (n·w,) what these are fed; at first (n, prompt)

    def go_on(self, tokens: Host, log_p: Host, eos_id: int, stop: Stop | None) -> None:
        """Choose among proposals (n·w, k), each row's likeliest first, and let go of what has ended."""
        width = len(self.under_way[0].places)
        best = [self._best(*each) for each in zip(self.under_way, *self._ranked(tokens, log_p), strict=True)]
        new_width = max(width, *map(len, best))
        self.chosen += 1
        for source, proposals in zip(self.under_way, best, strict=True):
            places = seats([one.place for one in proposals], new_width)
            source.places = [None] * new_width
            for place, one in zip(places, proposals, strict=True):
                source.places[place] = one
            source.greedy = places[0] if source.greedy is not None and places else None
            self._end(source, eos_id, stop)
        self._leave(width)

    def found(self) -> list[list[tuple[Host, float, float]]]:
        """(tokens, score, log P) of the hypotheses of each source, the best first."""
        return [sorted(source.ended, key=lambda one: -one[1]) for source in self.all]

    def _ranked(self, tokens: Host, log_p: Host) -> tuple[list[list[int]], list[list[int]], list[list[float]]]:
        """Places, tokens and log P of each source's best proposals (n, at most beam): the greedy one, then by log P."""
        own = np.array([[one.log_p if one else NOBODY for one in source.places] for source in self.under_way])
        (n, w), k = own.shape, tokens.shape[1]
        total = (own[:, :, None] + log_p.reshape(n, w, k)).reshape(n, w * k)
        key = -total  # of equal ones the first comes first
        for i, source in enumerate(self.under_way):
            if source.greedy is not None:
                key[i, source.greedy * k] = NOBODY
        order = np.argsort(key, axis=1, kind="stable")[:, : self.beam]
        each = np.arange(n)[:, None]
        return (order // k).tolist(), tokens.reshape(n, w * k)[each, order].tolist(), total[each, order].tolist()

    def _best(self, source: Source, places: list[int], tokens: list[int], log_p: list[float]) -> list[Proposal]:
        """Those of a source's proposals that go on."""
        if source.greedy is not None and not log_p[0] > NOBODY:
            source.greedy = None
        room, chains = self.beam - len(source.ended), [None if one is None else one.chain for one in source.places]
        return [  # NaN is nobody's, too
            Proposal(value, place, (chains[place], token))
            for place, token, value in zip(places[:room], tokens, log_p, strict=False)
            if value > NOBODY
        ]

    def _end(self, source: Source, eos_id: int, stop: Stop | None) -> None:
        """Take hypotheses that end here out of their places, and all if none can pass the best that has ended."""
        length = source.prompt.size + self.chosen
        for place, one in enumerate(source.places):
            if one is None or one.chain is None:
                continue
            over = one.chain[1] == eos_id or length == self.max_len
            if over or (stop is not None and stop(_text(source.prompt, one.chain))):
                text, score = _text(source.prompt, one.chain), one.log_p / self._penalty(self.chosen)
                source.ended.append((text, score, one.log_p))
                source.places[place] = None
                if source.greedy == place:
                    source.greedy = None
        if not source.ended:
            return
        reach = max((one.log_p for one in source.places if one is not None), default=NOBODY)
        best = max(score for _, score, _ in source.ended)
        if best >= reach / self._penalty(self.max_len - source.prompt.size):
            source.places, source.greedy = [None] * len(source.places), None

    def _leave(self, old_width: int) -> None:
        """Let sources go that are done, and places that are empty; their rows were old_width to a source."""
        used = [sum(one is not None for one in source.places) for source in self.under_way]
        going = [i for i, count in enumerate(used) if count]
        if 2 * len(going) > len(used):
            going = list(range(len(used)))
        width, fewer = len(self.under_way[0].places), max(1, *used)
        rows, tokens = [], []
        for i in going:
            source = self.under_way[i]
            kept = list(range(width))
            if 2 * fewer <= width:  # those in use, in their order, then others
                kept.sort(key=[one is None for one in source.places].__getitem__)
                kept = kept[:fewer]
            for place in kept:
                one = source.places[place]
                rows.append(i * old_width + (place % old_width if one is None else one.place))
                tokens.append(self.pad_id if one is None or one.chain is None else one.chain[1])
            source.greedy = kept.index(source.greedy) if source.greedy is not None else None
            source.places = [source.places[place] for place in kept]
        self.under_way = [self.under_way[i] for i in going]
        self.rows, self.tokens = np.array(rows, dtype=np.int64), np.array(tokens, dtype=np.int64)

    def _penalty(self, length: int) -> float:
        """lp of so many tokens."""
        return float(((5 + length) / 6) ** self.length_penalty)


def seats(parents: list[int], width: int) -> list[int]:
    """Where, of width places, hypotheses go that continue those at parents, the best first.

    The first of siblings stays, the others take what is empty.
    """
    if len(set(parents)) == len(parents):
        return parents  # nobody has a sibling
    empty = [place for place in range(width) if place not in parents]
    stayed: set[int] = set()
    places = []
    for parent in parents:
        places.append(empty.pop(0) if parent in stayed else parent)
        stayed.add(parent)
    return places


def _text(prompt: Host, chain: Chain) -> Host:
    """The prompt's tokens and those of the chain."""
    tokens = []
    while chain is not None:
        chain, token = chain
        tokens.append(token)
    return np.concatenate([prompt, np.array(tokens[::-1], dtype=prompt.dtype)])
