"""One decoding step of a decoder layer, one token for each row, in one call.

A few tokens leave little to share in a matrix product: the step costs what reading the weights costs,
and every array operation beside it costs as much as a small product. So the whole layer is one kernel,

    post-LN   x ← LN(x + f(x))      pre-LN   x ← x + f(LN(x))      f = self-, cross-attention, feed-forward

built on one product, y += x W, which takes four rows of W at a time, for all tokens while they are in the
fastest cache. Scores are such a product too, of a head's q (D,) and its keys (D, S), and so is a head's
output, of its weights (S,) and values (S, D). Behind a ReLU half of x or more is 0: a token that is
alone reads no row of W that it does not need.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from npformer.backend.numba.compiling import inlined, kernel, takes
from npformer.backend.numba.error_function import error_function
from npformer.backend.numba.exponential import exponential
from npformer.backend.numba.linear import FEW_TOKENS, add_product, affine
from npformer.backend.numba.rows import contiguous
from npformer.functional.attention_mask import AttentionMask
from npformer.typing import Array


def decoder_layer_step(
    x: Array, weights: tuple[Array, ...], past: Any, memory: Any, mask: AttentionMask, memory_mask: AttentionMask,
    *, pre: bool, activation: str, eps: float,
) -> Array | None:  # fmt: skip
    """``DecoderLayer.step`` for x (B, 1, C), B few; None for other cases."""
    batch, length, c = x.shape
    if length != 1 or batch > FEW_TOKENS or not takes(x.dtype.char):
        return None
    heads, width, room = past.keys.shape[1:]
    if not (mask.query_offset < room and _fits(mask, past, batch, mask.query_offset + 1)
            and _fits(memory_mask, memory, batch, memory.keys.shape[3]) and c == weights[0].shape[0]):  # fmt: skip
        return None  # the composition says what is wrong, if anything is; a kernel would write anywhere
    y = np.array(x)  # (B, 1, C)
    step_of_tokens(
        y.reshape(batch, c), *weights,
        past.keys.reshape(batch * c, -1), past.values.reshape(-1, width), contiguous(mask.key_visible),
        memory.keys.reshape(batch * c, -1), memory.values.reshape(-1, width), contiguous(memory_mask.key_visible),
        mask.query_offset, heads, pre, activation == "gelu", eps,
    )  # fmt: skip
    return y


def _fits(mask: AttentionMask, kept: Any, batch: int, length: int) -> bool:
    """Whether the mask names the keys that are there, one by one, of as many rows."""
    visible = mask.key_visible
    return visible is not None and visible.shape == (batch, length) and kept.keys.shape[0] == batch


@inlined
def affine_of_few(x, w, bias, y):
    """The same for one token, x (m,) to y (n,), reading only the rows of w that meet a number other than 0."""
    used = np.empty(x.shape[0], np.int64)
    m = 0
    for i in range(x.shape[0]):
        used[m] = i
        m += x[i] != 0  # NaN counts
    y[:] = bias
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
    """Scores (S,) become weights, in place; all of them 0 if nothing is visible."""
    own = scores.dtype.type
    top = own(-np.inf)
    for j in range(scores.shape[0]):
        scores[j] = scores[j] * scale if visible[j] else own(-np.inf)
        top = max(top, scores[j])
    if top == -np.inf:
        scores[:] = own(0)
        return
    total = own(0)
    for j in range(scores.shape[0]):
        scores[j] = exponential(scores[j] - top)
    for j in range(scores.shape[0]):
        total += scores[j]
    for j in range(scores.shape[0]):
        scores[j] /= total


@inlined
def attend(q, keys, values, visible, heads, scores, out):
    """Each row of out (B, C) from q (B, ≥ C), keys (B·C, room), values (B·H·room, D) and visible (B, S)."""
    width, room, stop = values.shape[1], keys.shape[1], visible.shape[1]
    own = out.dtype.type
    scale = own(1 / math.sqrt(width))
    here = scores[:stop]
    for r in range(out.shape[0]):
        out[r, :] = own(0)
        for h in range(heads):
            head = slice(h * width, (h + 1) * width)
            here[:] = own(0)
            add_product(q[r, head], keys, (r * heads + h) * width, here)
            softmax_of_visible(here, visible[r], scale)
            add_product(here, values, (r * heads + h) * room, out[r, head])


@inlined
def norm(x, gamma, beta, eps, y):
    """y = LN(x); y may be x."""
    own, n = x.dtype.type, x.shape[0]
    mean = own(0)
    for j in range(n):
        mean += x[j]
    mean /= n
    square = own(0)
    for j in range(n):
        square += (x[j] - mean) * (x[j] - mean)
    r = own(1 / math.sqrt(square / n + eps))
    for j in range(n):
        y[j] = (x[j] - mean) * r * gamma[j] + beta[j]


@inlined
def enter(x, gamma, beta, eps, pre, y):
    """y (B, C): what a sub-layer is given."""
    for r in range(x.shape[0]):
        if pre:
            norm(x[r], gamma, beta, eps, y[r])
        else:
            y[r, :] = x[r]


@inlined
def leave(x, f, gamma, beta, eps, pre):
    """x (B, C): the stream after the sub-layer's output f."""
    for r in range(x.shape[0]):
        for j in range(x.shape[1]):
            x[r, j] += f[r, j]
        if not pre:
            norm(x[r], gamma, beta, eps, x[r])


@inlined
def remember(qkv, position, keys, values):
    """Put each token's key and value, columns C … 3C of qkv, where they belong."""
    width, room, c = values.shape[1], keys.shape[1], qkv.shape[1] // 3
    for r in range(qkv.shape[0]):
        for i in range(c):
            keys[r * c + i, position] = qkv[r, c + i]
        for h in range(c // width):
            first = 2 * c + h * width
            values[(r * (c // width) + h) * room + position, :] = qkv[r, first : first + width]


@inlined
def activate(h, gelu):
    own = h.dtype.type
    for j in range(h.shape[0]):
        if gelu:
            h[j] *= own(0.5) * (own(1) + error_function(h[j] * own(math.sqrt(0.5))))
        elif h[j] <= 0:  # so that a NaN passes and is seen
            h[j] = own(0)


@kernel("YXxXxxxXxXxxxXxXxxxYYBYYBii??f")
def step_of_tokens(
    x, w_qkv, b_qkv, w_o, b_o, gamma_1, beta_1, w_cross, b_cross, w_o_cross, b_o_cross, gamma_2, beta_2,
    w_up, b_up, w_down, b_down, gamma_3, beta_3,
    keys, values, visible, memory_keys, memory_values, memory_visible, position, heads, pre, gelu, eps,
):  # fmt: skip
    """The stream x (B, C) after the layer, in place; keys and values of its tokens go to position."""
    given, f, mixed = np.empty_like(x), np.empty_like(x), np.empty_like(x)
    qkv, h = np.empty((x.shape[0], b_qkv.shape[0]), x.dtype), np.empty((x.shape[0], b_up.shape[0]), x.dtype)
    scores = np.empty(max(visible.shape[1], memory_visible.shape[1]), x.dtype)

    enter(x, gamma_1, beta_1, eps, pre, given)
    affine(given, w_qkv, b_qkv, qkv)
    remember(qkv, position, keys, values)
    attend(qkv, keys, values, visible, heads, scores, mixed)
    affine(mixed, w_o, b_o, f)
    leave(x, f, gamma_1, beta_1, eps, pre)

    enter(x, gamma_2, beta_2, eps, pre, given)
    affine(given, w_cross, b_cross, f)
    attend(f, memory_keys, memory_values, memory_visible, heads, scores, mixed)
    affine(mixed, w_o_cross, b_o_cross, f)
    leave(x, f, gamma_2, beta_2, eps, pre)

    enter(x, gamma_3, beta_3, eps, pre, given)
    affine(given, w_up, b_up, h)
    activate(h.reshape(h.size), gelu)
    if h.shape[0] == 1:
        affine_of_few(h[0], w_down, b_down, f[0])
    else:
        affine(h, w_down, b_down, f)
    leave(x, f, gamma_3, beta_3, eps, pre)
