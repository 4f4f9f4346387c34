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
    Raises ConfigError unless max_len ≥ 1, and what model.forward raises for bad ids.
    """
    if max_len < 1:
        raise ConfigError(f"max_len: expected an integer >= 1, got {max_len}")
    pad_id, backend = model.config.pad_id, model.backend
    memory, memory_mask = model.encode(src)
    tokens = np.full((memory.shape[0], 1), bos_id, dtype=np.int64)
    ended = np.zeros(memory.shape[0], dtype=bool)
    while tokens.shape[1] <= max_len and not ended.all():
        last = model.decode(tokens, memory, memory_mask)[:, -1, :]  # (B, V)
        chosen = backend.host(namespace(last).argmax(last, axis=-1))
        chosen = np.where(ended, pad_id, chosen)
        ended |= chosen == eos_id
        tokens = np.concatenate([tokens, chosen[:, None]], axis=1)
    return tokens[:, 1:]
