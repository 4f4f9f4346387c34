"""What a beam search does between two steps that the kernel of ``decode_kernel.py`` takes, beside its choice.

Rows that are gone on from are put into place: a hypothesis stays where its parent was, or goes where nobody is
needed, so none comes from where another one goes.
"""

from __future__ import annotations

from npformer.backend.numba.beam_choice import NOBODY
from npformer.backend.numba.compiling import inlined
from npformer.backend.numba.decode_parts import HEADS, KEYS, POSITION, ROOM, VALUES
from npformer.backend.numba.sharing import matrix


@inlined
def is_over(tokens, totals, eos, best, longest, log_p):
    """Whether one of the hypotheses (n, w) ends, or all of a source's can no longer pass the best that has ended.

    log_p becomes totals.
    """
    found = False
    for i in range(tokens.shape[0]):
        top = NOBODY
        for p in range(tokens.shape[1]):
            log_p[i, p] = totals[i, p]
            top = max(top, totals[i, p])
            found = found or (totals[i, p] > NOBODY and tokens[i, p] == eos)
        found = found or (top > NOBODY and best[i] >= top / longest[i])
    return found


@inlined
def move(rows, layers, sizes, given, visible):
    """Let each row r of what is kept of the tokens so far be what row rows[r] was."""
    heads, room, stop, width = sizes[HEADS], sizes[ROOM], sizes[POSITION] + 1, given.shape[1] // sizes[HEADS]
    size = rows.shape[0] * heads * room
    for r in range(rows.shape[0]):
        if rows[r] == r:
            continue
        for t in range(stop):
            visible[r, t] = visible[rows[r], t]
        for layer in range(layers.shape[0]):
            for part in (KEYS, VALUES):
                kept = matrix(layers[layer, part], size, width, given)
                for h in range(heads):
                    to, source = (r * heads + h) * room, (rows[r] * heads + h) * room
                    for t in range(stop):
                        for j in range(width):
                            kept[to + t, j] = kept[source + t, j]
