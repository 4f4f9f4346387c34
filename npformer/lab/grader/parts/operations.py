"""The pairs that call no other. Each of split_heads and merge_heads is the other's backward."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from npformer.typing import Array


def split_heads(x: Array, num_heads: int) -> Array:
    """x (B, T, C) as heads (B, H, T, D), C = H·D."""
    batch, length, width = x.shape
    return x.reshape(batch, length, num_heads, width // num_heads).transpose(0, 2, 1, 3)


def merge_heads(heads: Array) -> Array:
    """Heads (B, H, T, D) side by side as x (B, T, C)."""
    batch, num_heads, length, width = heads.shape
    return heads.transpose(0, 2, 1, 3).reshape(batch, length, num_heads * width)


# Linear map
def linear_forward(x: Array, weight: Array, bias: Array) -> tuple[Array, Any]:
    """x (..., C_in), weight (C_in, C_out), bias (C_out,). Returns y (..., C_out) and a cache."""
    y = x @ weight + bias  # 1. (..., C_out)
    return y, (x, weight)


def linear_backward(dy: Array, cache: Any) -> tuple[Array, Array, Array]:
    """dy (..., C_out). Returns (dx (..., C_in), dweight (C_in, C_out), dbias (C_out,)), in this order."""
    x, weight = cache
    x_rows, dy_rows = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])  # (N, C_in), (N, C_out)
    dweight = np.matrix_transpose(x_rows) @ dy_rows
    dbias = np.sum(dy_rows, axis=0)
    dx = dy @ np.matrix_transpose(weight)
    return dx, dweight, dbias


# ReLU
def relu_forward(x: Array) -> tuple[Array, Any]:
    """x (...). Returns y (...) and a cache."""
    is_open = x > 0
    return np.where(is_open, x, 0.0), is_open


def relu_backward(dy: Array, cache: Any) -> Array:
    """dy (...). Returns dx (...)."""
    is_open = cache
    return np.where(is_open, dy, 0.0)


# GELU, the exact form
def gelu_forward(x: Array) -> tuple[Array, Any]:
    """x (...). Returns y (...) and a cache."""
    erf = np.vectorize(math.erf, otypes=[float])  # NumPy has none
    phi_below = 0.5 * (1.0 + erf(x / math.sqrt(2.0)))  # 1. the probability that a normal variable is below x
    return x * phi_below, (x, phi_below)  # 2.


def gelu_backward(dy: Array, cache: Any) -> Array:
    """dy (...). Returns dx (...)."""
    x, phi_below = cache
    density = np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)  # the derivative of phi_below
    return dy * (phi_below + x * density)


# Softmax over the visible entries of each row
def softmax_forward(x: Array, visible: Array | None = None) -> tuple[Array, Any]:
    """x (..., S), visible boolean and broadcastable to x (None: all). Returns y (..., S) and a cache."""
    scores = x if visible is None else np.where(visible, x, -np.inf)  # 1. a hidden entry gets weight 0
    top = np.max(scores, axis=-1, keepdims=True)  # 2. (..., 1), so that exp cannot overflow
    top = np.where(np.isfinite(top), top, 0.0)  # a row in which nothing is visible
    powers = np.exp(scores - top)  # 3. (..., S)
    total = np.sum(powers, axis=-1, keepdims=True)  # 4. (..., 1)
    y = powers / np.where(total == 0, 1.0, total)  # 5. (..., S); a row of nothing stays 0
    return y, y


def softmax_backward(dy: Array, cache: Any) -> Array:
    """dy (..., S). Returns dx (..., S)."""
    y = cache
    shared = np.sum(dy * y, axis=-1, keepdims=True)  # (..., 1)
    return y * (dy - shared)


# Dropout with its random decisions given
def dropout_forward(x: Array, keep: Array | None, scale: float) -> tuple[Array, Any]:
    """x (...), keep boolean like x, scale = 1/(1 − rate). Returns y (...) and a cache.

    keep None: nothing is dropped and nothing scaled.
    """
    if keep is None:
        keep, scale = True, 1.0
    return np.where(keep, x * scale, 0.0), (keep, scale)


def dropout_backward(dy: Array, cache: Any) -> Array:
    """dy (...). Returns dx (...)."""
    keep, scale = cache
    return np.where(keep, dy * scale, 0.0)


# Token embedding
def embedding_forward(tokens: Array, table: Array, scale: float = 1.0) -> tuple[Array, Any]:
    """tokens (...) integers in [0, V), table (V, C). Returns y (..., C) and a cache."""
    y = scale * table[tokens]  # 1. (..., C)
    return y, (tokens, table.shape[0], scale)


def embedding_backward(dy: Array, cache: Any) -> Array:
    """dy (..., C). Returns dtable (V, C); token ids have no gradient."""
    tokens, num_rows, scale = cache
    dtable = np.zeros((num_rows, dy.shape[-1]))
    np.add.at(dtable, tokens, scale * dy)
    return dtable


# Learned positions
def learned_positions_forward(x: Array, table: Array, offset: int = 0) -> tuple[Array, Any]:
    """x (B, T, C), table (P, C), offset + T <= P. Returns y (B, T, C) and a cache."""
    length = x.shape[1]
    y = x + table[offset : offset + length]  # 1. the same rows for each of the B sequences
    return y, (offset, table.shape[0])


def learned_positions_backward(dy: Array, cache: Any) -> tuple[Array, Array]:
    """dy (B, T, C). Returns (dx (B, T, C), dtable (P, C)), in this order."""
    offset, num_rows = cache
    dtable = np.zeros((num_rows, dy.shape[-1]))
    dtable[offset : offset + dy.shape[1]] = np.sum(dy, axis=0)
    return dy, dtable


# Layer normalisation
def layer_norm_forward(x: Array, gamma: Array, beta: Array, eps: float = 1e-5) -> tuple[Array, Any]:
    """x (..., C), gamma and beta (C,). Returns y (..., C) and a cache."""
    centred = x - np.mean(x, axis=-1, keepdims=True)  # 1. (..., C)
    r = 1.0 / np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + eps)  # 2. (..., 1)
    x_hat = centred * r  # 3. (..., C)
    y = gamma * x_hat + beta  # 4. (..., C)
    return y, (x_hat, r, gamma)


def layer_norm_backward(dy: Array, cache: Any) -> tuple[Array, Array, Array]:
    """dy (..., C). Returns (dx (..., C), dgamma (C,), dbeta (C,)), in this order."""
    x_hat, r, gamma = cache
    tokens = tuple(range(dy.ndim - 1))
    dgamma, dbeta = np.sum(dy * x_hat, axis=tokens), np.sum(dy, axis=tokens)  # back through 4
    g = dy * gamma  # the gradient of x_hat
    along_x_hat = np.mean(g * x_hat, axis=-1, keepdims=True)  # back through 2 and 3
    along_one = np.mean(g, axis=-1, keepdims=True)  # back through 1
    dx = r * (g - along_one - x_hat * along_x_hat)
    return dx, dgamma, dbeta


# Cross-entropy over the tokens that count
def cross_entropy_forward(
    logits: Array, targets: Array, ignore_index: int = 0, label_smoothing: float = 0.0
) -> tuple[Array, Any]:
    """logits (B, T, V), targets (B, T) integers. Returns the mean loss over counted tokens, (), and a cache.

    A token whose target is ignore_index does not count; if none counts, the loss is 0.
    """
    num_classes = logits.shape[-1]
    shifted = logits - np.max(logits, axis=-1, keepdims=True)  # 1. (B, T, V), so that exp cannot overflow
    log_p = shifted - np.log(np.sum(np.exp(shifted), axis=-1, keepdims=True))  # 2. (B, T, V)
    one_hot = targets[..., None] == np.arange(num_classes)  # (B, T, V)
    q = (1.0 - label_smoothing) * one_hot + label_smoothing / num_classes  # 3. what p should be
    token_loss = -np.sum(q * log_p, axis=-1)  # 4. (B, T)
    counted = targets != ignore_index  # (B, T)
    num_counted = max(int(np.sum(counted)), 1)
    loss = np.sum(np.where(counted, token_loss, 0.0)) / num_counted  # 5. ()
    return loss, (np.exp(log_p), q, counted, num_counted)


def cross_entropy_backward(dloss: Array, cache: Any) -> Array:
    """dloss, a number. Returns dlogits (B, T, V)."""
    p, q, counted, num_counted = cache
    dtoken_loss = np.where(counted, dloss / num_counted, 0.0)  # back through 5, (B, T)
    return (p - q) * dtoken_loss[..., None]  # back through 4, 2, 1
