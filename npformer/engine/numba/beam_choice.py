"""Chooses the hypotheses that a beam search continues, in one kernel from the logits on: ``decoding/choice.py``."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from npformer.engine.numba.arguments import OutDoubleRows, OutDoubles, OutRows, OutWhole, OutWholeRows
from npformer.engine.numba.compiling import inlined
from npformer.engine.numba.exponential import exponential


class Beams(NamedTuple):
    """The hypotheses of n sources, w for each, and working memory for the k best tokens of each."""

    log_p: OutDoubleRows  # (n, w)
    room: OutWhole  # (n,) how many more may end
    greedy: OutWhole  # (n,) which is the greedy one, or −1; updated
    best: OutWholeRows  # (n·w, k) the k likeliest tokens
    values: OutRows  # (n·w, k) and their logits
    log_sums: OutDoubles  # (n·w,) log Σ exp of each row's logits


NOBODY = -math.inf  # the log P of an empty slot; a NaN counts as one


@inlined
def best_of_row(row, tokens, values):
    """Write the k largest numbers of row (V,), the largest first, and their indices. Returns log Σ exp of the row.

    Of equal numbers the first comes first. Returns NaN if the row has a NaN.
    """
    k, count, nan = tokens.shape[0], 0, False
    for v in range(row.shape[0]):
        x = row[v]
        nan = nan or x != x
        if count < k or x > values[k - 1]:
            count = min(count + 1, k)
            place = count - 1
            while place > 0 and x > values[place - 1]:
                values[place], tokens[place] = values[place - 1], tokens[place - 1]
                place -= 1
            values[place], tokens[place] = x, v
    top, total = values[0], row.dtype.type(0)
    for v in range(row.shape[0]):
        total += exponential(row[v] - top)
    return math.nan if nan else top + math.log(total)


@inlined
def rank(log_p, values, log_sums, greedy, parents, proposals, totals):
    """Write the best of a source's proposals (w, k), at most m: the greedy one, then by log P. Returns their number."""
    (w, k), most, count = values.shape, totals.shape[0], 0
    if greedy >= 0 and most > 0:
        parents[0], proposals[0], count = greedy, 0, 1
        totals[0] = log_p[greedy] + min(values[greedy, 0] - log_sums[greedy], 0.0)
    first = count  # the greedy one keeps its place
    for p in range(w):
        for j in range(1 if p == greedy else 0, k):
            total = log_p[p] + min(values[p, j] - log_sums[p], 0.0)
            if not total > NOBODY or first == most or (count == most and not total > totals[most - 1]):
                break  # nor will those be that come after it
            count = min(count + 1, most)
            place = count - 1
            while place > first and total > totals[place - 1]:
                parents[place], proposals[place], totals[place] = (
                    parents[place - 1], proposals[place - 1], totals[place - 1],
                )  # fmt: skip
                place -= 1
            parents[place], proposals[place], totals[place] = p, j, total
    return count


@inlined
def seat(parents, totals, taken, places):
    """Write the rows of hypotheses (m,): a parent's first child keeps its row, others take free rows; −1: none."""
    taken[:] = False
    for q in range(parents.shape[0]):
        stays = totals[q] > NOBODY and not taken[parents[q]]
        places[q] = parents[q] if stays else -1
        if stays:
            taken[parents[q]] = True
    empty_one = 0
    for q in range(parents.shape[0]):
        if totals[q] > NOBODY and places[q] < 0:
            while taken[empty_one]:
                empty_one += 1
            places[q], taken[empty_one] = empty_one, True


@inlined
def choose(logits, beams, pad, rows, tokens, totals):
    """Compute rows, tokens and totals (n, width), and the beams' new greedy."""
    (n, w), width = beams.log_p.shape, rows.shape[1]
    greedy, best, values, log_sums = beams.greedy, beams.best, beams.values, beams.log_sums
    for r in range(logits.shape[0]):
        log_sums[r] = best_of_row(logits[r], best[r], values[r])
    parents, proposals, places = np.empty(width, np.int64), np.empty(width, np.int64), np.empty(width, np.int64)
    best_totals, taken = np.empty(width), np.empty(width, np.bool_)
    for i in range(n):
        first, most = i * w, min(beams.room[i], width)
        count = rank(
            beams.log_p[i], values[first : first + w], log_sums[first : first + w], greedy[i], parents, proposals,
            best_totals[:most],
        )  # fmt: skip
        seat(parents[:count], best_totals[:count], taken, places)
        for place in range(width):  # an empty one goes on from itself
            rows[i, place], tokens[i, place], totals[i, place] = first + place % w, pad, NOBODY
        for q in range(count):
            if places[q] >= 0:
                row = first + parents[q]
                rows[i, places[q]], tokens[i, places[q]] = row, best[row, proposals[q]]
                totals[i, places[q]] = best_totals[q]
        greedy[i] = places[0] if greedy[i] >= 0 and count > 0 else -1
