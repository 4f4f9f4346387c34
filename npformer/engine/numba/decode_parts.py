"""The parts of a decoding step, each computed by one thread: a part of a sub-layer, or of the logits.

Sub-layers are sums over parts, which are heads or columns of W₁ (see ``decode_kernel.py``). The functions read arrays
by their addresses, 64-bit integers in the order of ``decode_step.py``: unpacking a hundred arrays would take longer
than a step of a small model. After a ReLU half of h or more is 0, so a single token skips the rows of W₂ that meet a 0.

The first functions are what all parts share for one token per row: products that read a weight once, softmax and
normalisation.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from npformer.engine.numba.arguments import OutCube, OutMask, OutRows, OutWhole, OutWholeRows
from npformer.engine.numba.compiling import inlined
from npformer.engine.numba.exponential import error_function, exponential
from npformer.engine.numba.linear import AT_ONCE, FEW_TOKENS, add_product, affine, fill_and_map
from npformer.engine.numba.maximum import comparable, largest
from npformer.engine.numba.products import product
from npformer.engine.numba.work_sharing import DONE, MOST_PARTS, add, matrix, vector

#: Where each address stands in model and in a row of layers (see decode_step.py), and each number of a run's progress.
EMBEDDING, POSITIONS, GENERATOR, GENERATOR_BIAS = range(4)
NORM = GENERATOR_BIAS  # a bias comes before γ and β, 0 where there is no norm
SUB_LAYER = 6  # addresses of a sub-layer: two weights with their biases, γ and β
KEYS, VALUES, MEMORY_KEYS, MEMORY_VALUES = range(3 * SUB_LAYER, 3 * SUB_LAYER + 4)
POSITION, DECIDED = range(2)


class Sizes(NamedTuple):
    """The sizes and options of a decoder and of a run."""

    heads: int  # H
    width: int  # F
    vocabulary: int  # V
    room: int  # tokens whose keys and values may be kept
    source: int  # S
    together: int  # rows that read the same source
    is_pre: bool
    is_gelu: bool
    is_tied: bool  # the generator has the embedding's weight, one row per column
    parts: int  # of a phase
    looks: int  # of the leader before it gives a helper up


class Run(NamedTuple):
    """What the kernels that share a decoding run read and write."""

    layers: OutWholeRows  # (L, 22) addresses: of three sub-layers, and of kept keys and values
    model: OutWhole  # (6,) addresses
    sizes: Sizes
    scale: float  # of the embedding
    eps: float  # of all norms
    progress: OutWhole  # (2,) position of the next token; tokens decided in this call
    shared: OutWhole  # see work_sharing.py
    sums: OutCube  # (parts, B, C) what each part of a sub-layer adds
    inputs: OutRows  # (B, C) the input of the open phase
    logits: OutRows  # (B, V)
    visible: OutMask  # (B, room)
    memory_visible: OutMask  # (B/together, S)


@inlined
def add_products(x, w, y):
    """y (B, n) += x (B, m) times w (m, n)."""
    if x.shape[0] > FEW_TOKENS:
        product(x, w, 1, y)
        return
    for i in range(0, x.shape[1], AT_ONCE):
        for r in range(x.shape[0]):
            add_product(x[r, i : i + AT_ONCE], w, i, y[r])


@inlined
def map_columns(x, w, bias, y):
    """y (B, n) = x (B, m) times the first n columns of w, plus bias (n,)."""
    if x.shape[0] > FEW_TOKENS:
        fill_and_map(x, w[:, : y.shape[1]], bias, y)
    else:
        affine(x, w, bias, y)


@inlined
def add_product_of_few(x, w, y):
    """``add_products`` for one token, x (m,) and y (n,); it skips the rows of w that meet a 0."""
    used = np.empty(x.shape[0], np.int64)
    m = 0
    for i in range(x.shape[0]):
        used[m] = i
        m += x[i] != 0  # NaN counts
    n, whole = y.shape[0], m - m % 4
    for i in range(0, whole, 4):
        p, q, r, s = used[i], used[i + 1], used[i + 2], used[i + 3]
        a, b, c, d = x[p], x[q], x[r], x[s]
        row_a, row_b, row_c, row_d = w[p], w[q], w[r], w[s]
        for j in range(n):
            y[j] += a * row_a[j] + b * row_b[j] + c * row_c[j] + d * row_d[j]
    for i in range(whole, m):
        a, row_a = x[used[i]], w[used[i]]
        for j in range(n):
            y[j] += a * row_a[j]


@inlined
def softmax_of_visible(scores, visible, scale):
    """Softmax of scores (S,) in place, over the visible keys; all weights are 0 if no key is visible."""
    dtype = scores.dtype.type
    neg_inf, zero = dtype(-np.inf), dtype(0)
    for j in range(scores.shape[0]):
        scores[j] = scores[j] * scale if visible[j] else neg_inf
    top = largest(comparable(scores))
    if top == neg_inf:
        scores[:] = zero
        return
    total = zero
    for j in range(scores.shape[0]):
        scores[j] = exponential(scores[j] - top)
    for j in range(scores.shape[0]):
        total += scores[j]
    inverse = dtype(1) / total
    for j in range(scores.shape[0]):
        scores[j] *= inverse


@inlined
def norm(x, at, eps, y):
    """Write y = LN(x). at (2,) holds the addresses of γ and β; y may be x."""
    dtype, n = x.dtype.type, x.shape[0]
    gamma, beta = vector(at[0], n, x), vector(at[1], n, x)
    mean = dtype(0)
    for j in range(n):
        mean += x[j]
    mean /= n
    square = dtype(0)
    for j in range(n):
        square += (x[j] - mean) * (x[j] - mean)
    r = dtype(1 / math.sqrt(square / n + eps))
    for j in range(n):
        y[j] = (x[j] - mean) * r * gamma[j] + beta[j]


@inlined
def columns(x, at, first, stride, y):
    """Write y (B, n): x (B, C) times columns first … of a weight, plus its bias; at (2,) holds their addresses."""
    weight = matrix(at[0] + first * x.itemsize, x.shape[1], stride, x)
    map_columns(x, weight, vector(at[1] + first * x.itemsize, y.shape[1], x), y)


@inlined
def attend(q, keys, values, visible, stop, first, heads, together, mixed):
    """Write mixed (B, n) from q (B, n), of heads first …, over stop keys and values (B/together·H·room, D)."""
    width, room = values.shape[1], keys.shape[0] // (q.shape[0] // together * heads)
    dtype = q.dtype.type
    scale = dtype(1 / math.sqrt(width))
    scores = np.empty(stop, q.dtype)
    for r in range(q.shape[0]):
        mixed[r, :] = dtype(0)
        for i in range(0, q.shape[1], width):
            start = (r // together * heads + first + i // width) * room
            query = q[r, i : i + width]
            for j in range(stop):
                key, total = keys[start + j], dtype(0)
                for e in range(width):
                    total += query[e] * key[e]
                scores[j] = total
            softmax_of_visible(scores, visible[r // together, :stop], scale)
            add_product(scores, values, start, mixed[r, i : i + width])


@inlined
def remember(k, v, first, heads, position, keys, values):
    """Store each token's k and v (B, n), of the heads from first on, among the kept keys and values."""
    width, room = values.shape[1], keys.shape[0] // (k.shape[0] * heads)
    for r in range(k.shape[0]):
        for h in range(k.shape[1] // width):
            place, start = (r * heads + first + h) * room + position, h * width
            for i in range(width):
                keys[place, i] = k[r, start + i]
                values[place, i] = v[r, start + i]


@inlined
def self_attention(x, at, sizes, position, visible, first, last, out):
    """Add to out (B, C) what heads first … last − 1 contribute."""
    batch, c, heads, room = x.shape[0], x.shape[1], sizes.heads, sizes.room
    start, n = first * (c // heads), (last - first) * (c // heads)
    q, k, v = np.empty((batch, n), x.dtype), np.empty((batch, n), x.dtype), np.empty((batch, n), x.dtype)
    columns(x, at, start, 3 * c, q)
    columns(x, at, c + start, 3 * c, k)
    columns(x, at, 2 * c + start, 3 * c, v)
    size = batch * heads * room
    keys, values = matrix(at[KEYS], size, c // heads, x), matrix(at[VALUES], size, c // heads, x)
    remember(k, v, first, heads, position, keys, values)
    attend(q, keys, values, visible, position + 1, first, heads, 1, k)
    add_products(k, matrix(at[2] + start * c * x.itemsize, n, c, x), out)


@inlined
def cross_attention(x, at, sizes, visible, first, last, out):
    """Add to out (B, C) what heads first … last − 1 contribute."""
    batch, c, heads, room, together = x.shape[0], x.shape[1], sizes.heads, sizes.source, sizes.together
    start, n = first * (c // heads), (last - first) * (c // heads)
    q, mixed = np.empty((batch, n), x.dtype), np.empty((batch, n), x.dtype)
    columns(x, at[SUB_LAYER:], start, 3 * c, q)
    size = batch // together * heads * room
    keys, values = matrix(at[MEMORY_KEYS], size, c // heads, x), matrix(at[MEMORY_VALUES], size, c // heads, x)
    attend(q, keys, values, visible, room, first, heads, together, mixed)
    add_products(mixed, matrix(at[SUB_LAYER + 2] + start * c * x.itemsize, n, c, x), out)


@inlined
def feed_forward(x, at, sizes, first, last, out):
    """Add to out (B, C) what columns first … last − 1 of W₁ contribute."""
    dtype, c = x.dtype.type, x.shape[1]
    h = np.empty((x.shape[0], last - first), x.dtype)
    columns(x, at, first, sizes.width, h)
    flat, zero = h.reshape(h.size), dtype(0)
    if sizes.is_gelu:
        for j in range(h.size):
            flat[j] *= dtype(0.5) * (dtype(1) + error_function(flat[j] * dtype(math.sqrt(0.5))))
    else:
        for j in range(h.size):
            value = flat[j]
            flat[j] = zero if value < zero else value  # so that a NaN passes and is seen
    w_down = matrix(at[2] + first * c * x.itemsize, last - first, c, x)
    if h.shape[0] == 1:
        add_product_of_few(h[0], w_down, out[0])
    else:
        add_products(h, w_down, out)


@inlined
def generate(x, model, sizes, first, last, logits):
    """Write columns first … last − 1 of the logits (B, V); a tied weight has one row per column."""
    c = x.shape[1]
    if not sizes.is_tied:
        some_logits = np.empty((x.shape[0], last - first), x.dtype)  # one piece of memory, whose loops become vectors
        columns(x, model[GENERATOR:], first, sizes.vocabulary, some_logits)
        for r in range(x.shape[0]):
            for v in range(first, last):
                logits[r, v] = some_logits[r, v - first]
        return
    bias = vector(model[GENERATOR_BIAS], sizes.vocabulary, x)
    weight = matrix(model[GENERATOR], sizes.vocabulary, c, x)
    if x.shape[0] > FEW_TOKENS:
        for r in range(x.shape[0]):
            for v in range(first, last):
                logits[r, v] = bias[v]
        product(x, weight[first:last].T, 1, logits[:, first:last])
        return
    for v in range(first, last):
        row = weight[v]
        for r in range(x.shape[0]):
            total = x.dtype.type(0)
            for j in range(c):
                total += x[r, j] * row[j]
            logits[r, v] = bias[v] + total


@inlined
def do_part(run, ticket):
    """Compute a part of the open phase from inputs (B, C): its slice of sums (parts, B, C), or of the logits (B, V)."""
    layers, sizes, part = run.layers, run.sizes, ticket % MOST_PARTS
    phase = ticket // MOST_PARTS % (3 * layers.shape[0] + 1)
    kind = 3 if phase == 3 * layers.shape[0] else phase % 3
    size = sizes.vocabulary if kind == 3 else sizes.width if kind == 2 else sizes.heads
    first, last = part * size // sizes.parts, (part + 1) * size // sizes.parts
    out = run.sums[part]
    out[:] = out.dtype.type(0)
    inputs, at = run.inputs, layers[phase // 3 % layers.shape[0]]
    if kind == 0:
        self_attention(inputs, at, sizes, run.progress[POSITION], run.visible, first, last, out)
    elif kind == 1:
        cross_attention(inputs, at, sizes, run.memory_visible, first, last, out)
    elif kind == 2:
        feed_forward(inputs, at[2 * SUB_LAYER :], sizes, first, last, out)
    else:
        generate(inputs, run.model, sizes, first, last, run.logits)
    add(run.shared, DONE, 1)
