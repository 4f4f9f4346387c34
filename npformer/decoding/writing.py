"""The generation loop of greedy decoding and of sampling: one token per row and step, until every row has ended.

A row ends with eos_id, at max_len tokens, or where ``stop`` returns True. Then it is fed pads, which no token
attends to. Once half of the rows have ended, they are removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np

from npformer.decoding.opening import Opening, Writer, advance, in_threads
from npformer.typing import Array, HostArray

#: An interrupt waits for the end of a call, so a call makes at most this many tokens, but at least this many steps.
AT_ONCE, STEPS = 64, 8
#: (logits (b, V), rows (b,): which of the B rows they are, t: tokens chosen so far) -> tokens (b,) on the host.
Choose: TypeAlias = Callable[[Array, HostArray, int], HostArray]
#: A row's tokens so far (T,) -> whether it ends here. Tokens are those that the search returns for the row.
Stop: TypeAlias = Callable[[HostArray], bool]


def write(
    model: Writer,
    openings: list[Opening],
    choose: Choose,
    *,
    eos_id: int,
    stop: Stop | None,
    is_greedy: bool = False,
) -> HostArray:
    """Continue the texts of openings, token by token. Returns the texts (B, T), filled with the pad id.

    If is_greedy, choose takes the likeliest tokens, and an engine may do that for several steps at once.
    """
    rows = np.argsort(np.concatenate([opening.rows for opening in openings]))
    loops = [_continued(model, opening, choose, is_greedy and stop is None, eos_id, stop) for opening in openings]
    in_threads(model, rows.size, loops)
    texts = np.concatenate([opening.texts for opening in openings])[rows]
    return texts[:, : max(int(opening.lengths.max()) for opening in openings)]


def _continued(
    model: Writer, opening: Opening, choose: Choose, at_once: bool, eos_id: int, stop: Stop | None
) -> Iterator[None]:
    """Generate the texts of opening, and set their lengths."""
    engine, (state, tokens, texts, lengths) = model.backend.engine, opening[:4]
    pad_id, max_len = model.config.filler, texts.shape[1]
    rows = np.arange(state.batch)  # the text of each row of the state
    ended = lengths >= max_len
    t = 0
    while not ended.all():
        if 2 * np.count_nonzero(ended) >= ended.size:  # by halves: copying the state costs no more than it saves
            going = np.flatnonzero(~ended)
            rows, tokens, ended = rows[going], tokens[going], ended[going]
            state.reorder(going)
        now, chosen = rows[~ended], None
        if at_once and engine is not None and tokens.ndim == 1:  # no prompt
            most = min(max(AT_ONCE // ended.size, STEPS), max_len - int(lengths[now].max()))
            chosen = engine.likeliest(model, tokens, state, ~ended, most, eos_id)
            at_once = chosen is not None  # else do not try it again
        if chosen is None:
            chosen = choose(advance(model, tokens, state), opening.rows[rows], t)[None]
        tokens = np.where(ended, pad_id, chosen[-1])
        count, chosen = len(chosen), chosen[:, ~ended]
        texts[now, lengths[now] + np.arange(count)[:, None]] = chosen
        ends = chosen == eos_id
        lengths[now] += np.where(ends.any(axis=0), ends.argmax(axis=0) + 1, count)
        ended[~ended] = ends.any(axis=0)
        ended |= lengths[rows] >= max_len
        if stop is not None:
            ended = np.array(
                [over or bool(stop(texts[row, : lengths[row]].copy())) for over, row in zip(ended, rows, strict=True)]
            )
        t += count
        yield
