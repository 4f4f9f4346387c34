"""Greedy decoding: at every step the likeliest next token, for a whole batch at once."""

from __future__ import annotations

from functools import partial

from npformer.decoding.opening import Host, Writer, end_token, open_texts
from npformer.decoding.writing import Stop, write
from npformer.functional.arrays import namespace
from npformer.runtime import fused_decode
from npformer.typing import Array


def greedy(
    model: Writer,
    src: Array,
    max_len: int = 32,
    *,
    bos_id: int = 1,
    eos_id: int | None = 2,
    stop: Stop | None = None,
) -> Host:
    """Decode src (B, S), token ids, into at most max_len tokens each.

    Returns (B, T) int64 on the host, T ≤ max_len, without the begin token: each row ends with
    eos_id, if it got that far, or where stop, given the row's tokens so far (T,), says True; it is filled
    up with the pad id. Stops when all rows have ended. eos_id None: no token ends a row.

    For a Decoder, src are prompts, and each row returned begins with its own; they need not be of one
    length, bos_id is not used, and max_len counts the prompt too.

    Raises ConfigError unless max_len ≥ 1, and no less than a prompt; ShapeError for a row of padding alone;
    and what model.start and model.step raise.
    """

    def likeliest(logits: Array, rows: Host, t: int) -> Host:
        return model.backend.host(namespace(logits).argmax(logits, axis=-1))

    openings, end = open_texts(model, src, max_len, bos_id), end_token(eos_id)
    several = partial(fused_decode.likeliest, model, eos_id=end) if stop is None else None
    return write(model, openings, likeliest, eos_id=end, stop=stop, several=several)
