"""Decoding steps of a whole decoder, one token for each row, in one kernel.

A few tokens leave little to share in a matrix product: a step costs what reading the weights costs. One
core cannot read as fast as memory can deliver, so two threads read, each its own part (see ``sharing.py``).
Many tokens are multiplied by BLAS, on each of these threads alone.
A sub-layer is a sum over parts of its inside, heads or columns of W₁, and a part needs nothing of the others:

    attention      f(x) = b_o + Σ_h head_h(x) W_o[rows of h]
    feed-forward   f(x) = b₂ + Σ_p act(x W₁[columns p] + b₁[p]) W₂[rows p]

so a sub-layer is one phase, and the generator, whose parts are columns, one more. The leader then does

    post-LN   x ← LN(x + f(x))      pre-LN   x ← x + f(LN(x))      f = self-, cross-attention, feed-forward

What a part computes is in ``decode_parts.py``. Between two steps of a beam search rows that are gone on from are put
into place: a hypothesis stays where its parent was, or goes where nobody is needed, so none comes from where another
one goes.
"""

from __future__ import annotations

import numpy as np

from npformer.backend.numba.beam_choice import NOBODY, choose
from npformer.backend.numba.compiling import inlined, kernel
from npformer.backend.numba.decode_parts import (
    DECIDED,
    EMBEDDING,
    HEADS,
    KEYS,
    LOOKS,
    NORM,
    PARTS,
    POSITION,
    POSITIONS,
    PRE,
    ROOM,
    SUB_LAYER,
    VALUES,
    do_part,
    norm,
)
from npformer.backend.numba.sharing import (
    LOST,
    PRESENT,
    WANTED,
    finish,
    load,
    matrix,
    open_phase,
    pause,
    phase_of,
    store,
    take,
    vector,
)


@inlined
def help_with_steps(layers, model, sizes, shared, sums, given, logits, visible, memory_visible, patience):
    """Take parts of steps until none has been there for a while, nobody wants them any more, or another one does."""
    looks = 0
    while looks < patience and load(shared, LOST) + load(shared, WANTED) == 0:
        ticket = take(shared, sizes[PARTS], True)
        if ticket >= 0:
            do_part(layers, model, sizes, shared, given, sums, logits, visible, memory_visible, ticket)
            looks = 0
        looks += 1
        pause()
    store(shared, PRESENT, 0)


@inlined
def embed(tokens, model, position, scale, x):
    """x (B, C): the tokens' vectors, scaled, at position."""
    c = x.shape[1]
    places = vector(model[POSITIONS] + position * c * x.itemsize, c, x)
    for r in range(x.shape[0]):
        row = vector(model[EMBEDDING] + tokens[r] * c * x.itemsize, c, x)
        for j in range(c):
            x[r, j] = row[j] * x.dtype.type(scale) + places[j]


@inlined
def add_up(x, bias, sums):
    """x (B, C) += bias (C,) + Σ_parts sums (parts, B, C)."""
    for r in range(x.shape[0]):
        for j in range(x.shape[1]):
            x[r, j] += bias[j]
        for part in range(sums.shape[0]):
            for j in range(x.shape[1]):
                x[r, j] += sums[part, r, j]


@inlined
def take_step(layers, model, sizes, shared, sums, given, logits, visible, memory_visible, tokens, scale, eps):
    """The logits (B, V) after tokens (B,); their keys and values go to the position that sizes names. False: lost."""
    batch, c, end = given.shape[0], given.shape[1], 3 * layers.shape[0]
    x = np.empty_like(given)
    embed(tokens, model, sizes[POSITION], scale, x)
    begin = (phase_of(shared) // (end + 1) + 1) * (end + 1)
    for phase in range(end + 1):
        at = model[NORM:] if phase == end else layers[phase // 3][phase % 3 * SUB_LAYER + 3 :]  # b, γ, β
        is_normed = at[1] != 0 if phase == end else sizes[PRE] != 0
        for r in range(batch):
            if is_normed:
                norm(x[r], at[1:], eps, given[r])
            else:
                for j in range(c):
                    given[r, j] = x[r, j]
        open_phase(shared, begin + phase)
        ticket = take(shared, sizes[PARTS], False)
        while ticket >= 0:
            do_part(layers, model, sizes, shared, given, sums, logits, visible, memory_visible, ticket)
            ticket = take(shared, sizes[PARTS], False)
        if not finish(shared, sizes[PARTS], sizes[LOOKS]):
            return False
        if phase < end:
            add_up(x, vector(at[0], c, x), sums)
            for r in range(batch):
                if sizes[PRE] == 0:
                    norm(x[r], at[1:], eps, x[r])
    return True


@inlined
def likeliest(row):
    """Where the largest of row (V,) is, the first of several; where a NaN is, if there is one."""
    best, top = 0, row[0]
    for v in range(1, row.shape[0]):
        if not row[v] <= top and top == top:
            best, top = v, row[v]
    return best


@inlined
def say_likeliest(logits, going, eos, pad, tokens):
    """Each row's likeliest token, pads for a row that is not going; whether one of the others ends."""
    is_over = False
    for r in range(tokens.shape[0]):
        tokens[r] = likeliest(logits[r]) if going[r] else pad
        is_over = is_over or (going[r] and tokens[r] == eos)
    return is_over


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


@kernel("KkssZYYCBi" + "sff" + "iiWb" + "kdd" + "WYd" + "DsWD", calls="decoder_steps")
def steps_of_tokens(
    layers, model, sizes, shared, sums, given, logits, visible, memory_visible, patience, tokens, scale, eps,
    eos, pad, chosen, going, room, best_score, longest, best, values, log_sums, log_p, greedy, rows, totals,
):  # fmt: skip
    """One step without room in chosen (n, B): the logits after tokens (B,). Else up to n, each fed what was chosen.

    What is chosen is each row's likeliest token, or, where log_p has beams, what ``choose`` says, rows (n, B) being
    those that each goes on from. The last step is one after which a row that is going says eos, or a source is done;
    how many there were is in sizes[DECIDED]. tokens are overwritten. With patience, the thread is a helper.
    """
    if patience > 0:
        help_with_steps(layers, model, sizes, shared, sums, given, logits, visible, memory_visible, patience)
        return
    sizes[DECIDED] = 0
    is_search = log_p.size > 0
    while take_step(
        layers, model, sizes, shared, sums, given, logits, visible, memory_visible, tokens, scale, eps
    ):  # fmt: skip
        if chosen.shape[0] == 0:
            return
        step = sizes[DECIDED]
        if is_search:
            parents, in_beams = rows[step].reshape(log_p.shape), chosen[step].reshape(log_p.shape)
            choose(logits, log_p, room, pad, best, values, log_sums, greedy, parents, in_beams, totals)
            for r in range(tokens.shape[0]):
                tokens[r] = chosen[step, r]
            over = is_over(in_beams, totals, eos, best_score, longest, log_p)
        else:
            over = say_likeliest(logits, going, eos, pad, tokens)
            for r in range(tokens.shape[0]):
                chosen[step, r] = tokens[r]
        sizes[DECIDED] += 1
        if over or sizes[DECIDED] == chosen.shape[0]:
            return
        if is_search:
            move(rows[step], layers, sizes, given, visible)
        sizes[POSITION] += 1
        for r in range(tokens.shape[0]):
            visible[r, sizes[POSITION]] = tokens[r] != pad
