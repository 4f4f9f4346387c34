"""Greedy decoding: at every step the likeliest next token, for a whole batch."""

from __future__ import annotations

from npformer.decoding.opening import Writer, eos_token, open_texts, with_room
from npformer.decoding.writing import Stop, write
from npformer.functional.arrays import namespace
from npformer.typing import Array, HostArray


@with_room
def greedy(
    model: Writer,
    src: Array,
    max_len: int = 32,
    *,
    bos_id: int = 1,
    eos_id: int | None = 2,
    stop: Stop | None = None,
) -> HostArray:
    """Decode src (B, S), token ids, into at most max_len tokens per row.

    Returns (B, T) int64 on the host, T ≤ max_len, without [BOS]. A row ends with
    eos_id, or where stop, called with the row's tokens so far (T,), returns True, or at max_len. The rest is filled
    with the pad id. Decoding stops when all rows have ended. eos_id None: no token ends a row.

    For a Decoder, src holds prompts, and each returned row begins with its prompt. Prompts may differ in
    length, bos_id is not used, and max_len includes the prompt.

    Raises ConfigError unless max_len ≥ 1 and no prompt is longer; ShapeError for a row of only padding;
    and the errors of model.start and model.step.
    """

    def likeliest(logits: Array, rows: HostArray, t: int) -> HostArray:
        return model.backend.host(namespace(logits).argmax(logits, axis=-1))

    openings = open_texts(model, src, max_len, bos_id, stop)
    return write(model, openings, likeliest, eos_id=eos_token(eos_id), stop=stop, is_greedy=True)
