"""Greedy decoding: at every step the likeliest next token, for a whole batch at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from npformer.errors import ConfigError
from npformer.functional.arrays import namespace
from npformer.models import Transformer
from npformer.typing import Array


def greedy(
    model: Transformer, src: Array, max_len: int = 32, *, bos_id: int = 1, eos_id: int = 2
) -> np.ndarray[Any, Any]:
    """Decode src (B, S), token ids, into at most max_len tokens each.

    Returns (B, T) int64 on the host, T ≤ max_len, without the begin token: each row ends with
    eos_id, if it got that far, and is filled up with the pad id. Stops when all rows have ended.
    Raises ConfigError unless max_len ≥ 1, and what model.start and model.step raise.
    """
    if max_len < 1:
        raise ConfigError(f"max_len: expected an integer >= 1, got {max_len}")
    state = model.start(src, room(model, max_len))
    found = np.full((state.batch, max_len), model.config.pad_id, dtype=np.int64)
    rows = np.arange(state.batch)  # which row of found each row of the state is
    tokens = np.full(state.batch, bos_id, dtype=np.int64)
    ended = np.zeros(state.batch, dtype=bool)
    for length in range(max_len):
        logits = model.step(tokens, state)  # (B, V)
        chosen = model.backend.host(namespace(logits).argmax(logits, axis=-1))
        tokens = np.where(ended, model.config.pad_id, chosen)
        found[rows, length] = tokens
        ended |= tokens == eos_id
        if ended.all():
            return found[:, : length + 1]
        if 2 * np.count_nonzero(ended) >= ended.size:  # by halves, so that what is copied is no more than what is saved
            going = np.flatnonzero(~ended)
            rows, tokens, ended, state = rows[going], tokens[going], ended[going], state.select(going)
    return found


def room(model: Transformer, max_len: int) -> int:
    """Positions to keep free for max_len tokens: no more than the model has, since rows may end before."""
    return max_len if model.config.positions == "sinusoidal" else min(max_len, model.config.max_seq_len)
