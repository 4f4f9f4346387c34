"""Decoding steps of a whole decoder, one token for each row, in one kernel.

With a few tokens a matrix product reuses little: a step takes as long as reading the weights. One core cannot read as
fast as memory can deliver, so two threads read, each its own part of the weights (see ``work_sharing.py``). With many
tokens each of these threads multiplies by BLAS.

A sub-layer is a sum over independent parts, which are heads or columns of W₁:

    attention      f(x) = b_o + Σ_h head_h(x) W_o[rows of h]
    feed-forward   f(x) = b₂ + Σ_p act(x W₁[columns p] + b₁[p]) W₂[rows p]

So a sub-layer is one phase. The generator is one more; its parts are columns. After a phase the leader computes

    post-LN   x ← LN(x + f(x))      pre-LN   x ← x + f(LN(x))      f = self-, cross-attention, feed-forward

``decode_parts.py`` computes a part. Between two steps of a beam search the kernel moves rows: a hypothesis stays in
its parent's row, or goes to a row that no hypothesis needs. So no row is overwritten before it has been read.
"""

from __future__ import annotations

import numpy as np

from npformer.engine.numba.arguments import Flags, OutDoubleRows, OutDoubles, OutWhole, OutWholeRows
from npformer.engine.numba.beam_choice import NOBODY, Beams, choose
from npformer.engine.numba.compiling import inlined, kernel
from npformer.engine.numba.decode_parts import (
    DECIDED,
    EMBEDDING,
    KEYS,
    NORM,
    POSITION,
    POSITIONS,
    SUB_LAYER,
    VALUES,
    Run,
    do_part,
    norm,
)
from npformer.engine.numba.products import borrow
from npformer.engine.numba.work_sharing import (
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
def help_with_steps(run, most_looks):
    """The helper's loop: take parts until none has come for a while, or until it is not wanted or wanted elsewhere."""
    shared, looks = run.shared, 0
    while looks < most_looks and load(shared, LOST) + load(shared, WANTED) == 0:
        ticket = take(shared, run.sizes.parts, True)
        if ticket >= 0:
            do_part(run, ticket)
            looks = 0
        looks += 1
        pause()
    store(shared, PRESENT, 0)


@inlined
def embed(run, tokens, x):
    """Write x (B, C): the scaled embedding of the tokens plus their position."""
    c, model, scale = x.shape[1], run.model, x.dtype.type(run.scale)
    places = vector(model[POSITIONS] + run.progress[POSITION] * c * x.itemsize, c, x)
    for r in range(x.shape[0]):
        row = vector(model[EMBEDDING] + tokens[r] * c * x.itemsize, c, x)
        for j in range(c):
            x[r, j] = row[j] * scale + places[j]


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
def take_step(run, tokens):
    """Write the logits (B, V) after tokens (B,), and keep their keys and values. False: a helper is lost."""
    layers, sizes, shared, inputs, eps = run.layers, run.sizes, run.shared, run.inputs, run.eps
    batch, c, end = inputs.shape[0], inputs.shape[1], 3 * layers.shape[0]
    x = np.empty_like(inputs)
    embed(run, tokens, x)
    begin = (phase_of(shared) // (end + 1) + 1) * (end + 1)
    for phase in range(end + 1):
        at = run.model[NORM:] if phase == end else layers[phase // 3][phase % 3 * SUB_LAYER + 3 :]  # b, γ, β
        is_normed = at[1] != 0 if phase == end else sizes.is_pre
        for r in range(batch):
            if is_normed:
                norm(x[r], at[1:], eps, inputs[r])
            else:
                for j in range(c):
                    inputs[r, j] = x[r, j]
        open_phase(shared, begin + phase)
        ticket = take(shared, sizes.parts, False)
        while ticket >= 0:
            do_part(run, ticket)
            ticket = take(shared, sizes.parts, False)
        if not finish(shared, sizes.parts, sizes.looks):
            return False
        if phase < end:
            add_up(x, vector(at[0], c, x), run.sums)
            for r in range(batch):
                if not sizes.is_pre:
                    norm(x[r], at[1:], eps, x[r])
    return True


@inlined
def likeliest(row):
    """The index of the largest number of row (V,), the first of equal ones; the index of a NaN if there is one."""
    best, top = 0, row[0]
    for v in range(1, row.shape[0]):
        if not row[v] <= top and top == top:
            best, top = v, row[v]
    return best


@inlined
def write_likeliest(logits, going, eos, pad, tokens):
    """Write each row's likeliest token, or pad for a finished row. Returns whether an unfinished row chose eos."""
    is_over = False
    for r in range(tokens.shape[0]):
        tokens[r] = likeliest(logits[r]) if going[r] else pad
        is_over = is_over or (going[r] and tokens[r] == eos)
    return is_over


@inlined
def is_over(tokens, totals, eos, best, longest, log_p):
    """Whether one of the hypotheses (n, w) ends, or no hypothesis of a source can beat its best finished one.

    Copies totals to log_p.
    """
    ended = False
    for i in range(tokens.shape[0]):
        top = NOBODY
        for p in range(tokens.shape[1]):
            log_p[i, p] = totals[i, p]
            top = max(top, totals[i, p])
            ended = ended or (totals[i, p] > NOBODY and tokens[i, p] == eos)
        ended = ended or (top > NOBODY and best[i] >= top / longest[i])
    return ended


@inlined
def move(run, rows):
    """Move the kept keys and values: row r becomes what row rows[r] was."""
    layers, inputs, visible, heads, room = run.layers, run.inputs, run.visible, run.sizes.heads, run.sizes.room
    stop, width = run.progress[POSITION] + 1, inputs.shape[1] // heads
    size = rows.shape[0] * heads * room
    for r in range(rows.shape[0]):
        if rows[r] == r:
            continue
        for t in range(stop):
            visible[r, t] = visible[rows[r], t]
        for layer in range(layers.shape[0]):
            for part in (KEYS, VALUES):
                kept = matrix(layers[layer, part], size, width, inputs)
                for h in range(heads):
                    to, source = (r * heads + h) * room, (rows[r] * heads + h) * room
                    for t in range(stop):
                        for j in range(width):
                            kept[to + t, j] = kept[source + t, j]


@kernel(calls="decoder_steps")
def steps_of_tokens(
    run: Run, most_looks: int, tokens: OutWhole, eos: int, pad: int, chosen: OutWholeRows, going: Flags,
    beams: Beams, best_score: OutDoubles, longest: OutDoubles, rows: OutWholeRows, totals: OutDoubleRows,
):  # fmt: skip
    """Without room in chosen (n, B), one step: logits after tokens (B,). Else up to n steps, fed with their choices.

    Greedy decoding chooses each row's likeliest token. If there are beams, ``choose`` decides, and rows (n, B) are the
    parents. The steps end once an unfinished row chooses eos, or once a source is done; progress[DECIDED] is their
    number. tokens are overwritten. If most_looks > 0, the thread is a helper.
    """
    run, beams = borrow(run), borrow(beams)
    if most_looks > 0:
        help_with_steps(run, most_looks)
        return
    progress, logits, log_p = run.progress, run.logits, beams.log_p
    progress[DECIDED] = 0
    is_search = log_p.size > 0
    while take_step(run, tokens):
        if chosen.shape[0] == 0:
            return
        step = progress[DECIDED]
        if is_search:
            parents, in_beams = rows[step].reshape(log_p.shape), chosen[step].reshape(log_p.shape)
            choose(logits, beams, pad, parents, in_beams, totals)
            for r in range(tokens.shape[0]):
                tokens[r] = chosen[step, r]
            over = is_over(in_beams, totals, eos, best_score, longest, log_p)
        else:
            over = write_likeliest(logits, going, eos, pad, tokens)
            for r in range(tokens.shape[0]):
                chosen[step, r] = tokens[r]
        progress[DECIDED] += 1
        if over or progress[DECIDED] == chosen.shape[0]:
            return
        if is_search:
            move(run, rows[step])
        progress[POSITION] += 1
        for r in range(tokens.shape[0]):
            run.visible[r, progress[POSITION]] = tokens[r] != pad
