"""Beam search: several hypotheses for each source are extended in parallel, and the one with the best score wins.

    score(y) = log P(y | x)/lp(|y|)      lp(n) = ((5 + n)/6)^α      log P sums over the n chosen tokens

At every step each hypothesis of a source proposes its likeliest tokens, and the likeliest of all
proposals continue. A finished hypothesis leaves the beam, which shrinks by one, so a beam of k returns at most k
hypotheses. The likeliest token of the greedy hypothesis is always chosen first, so that hypothesis stays in the
beam to its end. A beam of 1 is therefore greedy decoding, and no best score is below that of greedy decoding.

log P only falls and lp only rises. So a source is done once no unfinished hypothesis can still exceed the
score of its best finished one.

Source: Wu et al. 2016, arXiv:1609.08144, eq. 14.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from npformer.decoding.beams import LENGTH_PENALTY, Beams
from npformer.decoding.opening import (
    Opening,
    Writer,
    advance,
    eos_token,
    expect_count,
    in_threads,
    open_texts,
    with_room,
)
from npformer.decoding.writing import Stop
from npformer.errors import ConfigError
from npformer.typing import Array, HostArray


class Hypothesis(NamedTuple):
    """One text that a search has found, with its score."""

    tokens: HostArray  # (T,) int64, as greedy returns them, without padding
    score: float
    log_probability: float  # of the tokens after the prompt


@with_room
def beam_search(
    model: Writer,
    src: Array,
    max_len: int = 32,
    *,
    beam: int = 4,
    length_penalty: float = LENGTH_PENALTY,
    bos_id: int = 1,
    eos_id: int | None = 2,
    stop: Stop | None = None,
) -> list[list[Hypothesis]]:
    """Decode as ``greedy`` does, but search for the texts of best score. Returns B lists of at most beam hypotheses.

    Each list is sorted, best first. length_penalty is α: 0 favours short texts; 1 divides log P by (5 + n)/6, which
    for long texts grows as their number of tokens n. Raises ConfigError unless beam ≥ 1 and length_penalty ≥ 0, and
    the errors of greedy.
    """
    beam = expect_count("beam", beam)
    if not 0 <= length_penalty < float("inf"):
        raise ConfigError(f"length_penalty: expected a number >= 0, got {length_penalty!r}")
    by_row: dict[int, list[Hypothesis]] = {}
    openings, end = open_texts(model, src, max_len, bos_id, stop, "beams"), eos_token(eos_id)
    engine = model.backend.engine

    def searched(opening: Opening) -> Iterator[None]:
        state, beams = opening.state, Beams(opening, beam, length_penalty, model.config.filler)
        while beams.rows.size:
            yield
            if beams.rows.size > state.batch:
                state = state.select(beams.rows)
            else:
                state.reorder(beams.rows)
            if engine is None or stop is not None or not beams.go_on_at_once(partial(engine.search, model), state, end):
                beams.go_on(advance(model, beams.tokens, state), model.backend, end, stop)
        for row, hypotheses in zip(opening.rows.tolist(), beams.hypotheses(), strict=True):
            by_row[row] = [Hypothesis(*each) for each in hypotheses]

    in_threads(model, sum(opening.rows.size for opening in openings), [searched(opening) for opening in openings])
    return [by_row[row] for row in sorted(by_row)]
