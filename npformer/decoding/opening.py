"""The start of decoding: sources or prompts become a decode state and the first tokens to feed.

A Transformer's texts begin empty, and it is fed [BOS]. A Decoder's texts begin with their
prompts. All prompts are fed in one call, padded on the left so that they end at the same position, and each row
continues from its last token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial, wraps
from numbers import Integral
from typing import Any, NamedTuple, ParamSpec, TypeAlias, TypeVar

import numpy as np

from npformer.errors import ConfigError, DTypeError, ShapeError, whole_number
from npformer.layers import DecodeState
from npformer.models import Decoder, Model, Transformer
from npformer.models.inputs import checked_ids
from npformer.typing import Array, HostArray

Given = ParamSpec("Given")
Result = TypeVar("Result")
#: A model that generates tokens.
Writer: TypeAlias = Transformer | Decoder


def with_room(search: Callable[Given, Result]) -> Callable[Given, Result]:
    """The search, with ``Backend.with_room``; what it is given is left as it was."""

    @wraps(search)
    def searched(*inputs: Given.args, **options: Given.kwargs) -> Result:
        model = inputs[0] if inputs else options.get("model")
        if isinstance(model, Model):
            return model.backend.with_room(search, *inputs, **options)
        return search(*inputs, **options)  # refuses it

    return searched


class Opening(NamedTuple):
    """The starting point of every search."""

    state: DecodeState
    tokens: HostArray  # (B,) or (B, n): fed first
    texts: HostArray  # (B, max_len) int64: the prompts, followed by pads to overwrite
    lengths: HostArray  # (B,) the length of each prompt
    inputs: list[HostArray]  # the B input rows without trailing pads
    rows: HostArray  # (B,) their indices in the whole batch


def open_texts(
    model: Writer, src: Array, max_len: int, bos_id: int, stop: Any, purpose: str = "decoding"
) -> list[Opening]:
    """Begin the texts of src (B, S): sources for a Transformer, prompts for a Decoder. One Opening per group of rows.

    Without a stop, which is called for one text after the other, there may be a group for each thread. purpose selects
    the kernels to compile, as in ``compile_ahead``.
    Raises ConfigError for another model, max_len < 1 and a prompt longer than max_len, ShapeError for a
    row of only padding, and the errors of model.start.
    """
    if not isinstance(model, (Transformer, Decoder)):
        raise ConfigError(
            f"model: expected a Transformer or a Decoder, got {type(model).__name__}; an Encoder reads a whole text "
            "at once, looking ahead, and so has no next token to say"
        )
    max_len = expect_count("max_len", max_len)
    engine = model.backend.engine
    if engine is not None:
        engine.compile_ahead(model, purpose)
    if isinstance(model, Decoder):
        _, prompts = _rows("prompt", src, model.config.vocab_size, model)
        groups = [part for rows in _together(model, prompts) for part in _parts(model, rows, stop)]
        return [_open_prompts(model, prompts, rows, max_len) for rows in groups]
    host, inputs = _rows("src", src, model.config.src_vocab_size, model)
    groups, start = _parts(model, np.arange(len(inputs)), stop), model.start if engine is None else None
    states: dict[int, DecodeState] = {}

    def begin(i: int) -> Iterator[None]:
        some = src if len(groups) == 1 else host[groups[i]]
        states[i] = (start or partial(engine.start, model))(some, room(model, max_len))
        yield

    in_threads(model, len(inputs), [begin(i) for i in range(len(groups))])
    texts = np.full((len(inputs), max_len), model.config.filler, dtype=np.int64)
    return [
        Opening(
            states[i], np.full(rows.size, bos_id), texts[rows], np.zeros_like(rows), [inputs[r] for r in rows], rows
        )
        for i, rows in enumerate(groups)
    ]


def _parts(model: Writer, rows: HostArray, stop: Any) -> list[HostArray]:
    """The rows for each thread."""
    engine = model.backend.engine
    return np.array_split(rows, 1 if engine is None or stop else engine.parts_of_texts(model, rows.size))


def in_threads(model: Writer, texts: int, loops: Sequence[Iterator[None]]) -> None:
    """Run the loops, which decode so many texts, to their ends, at the same time if each has a thread."""
    if model.backend.engine is not None:
        model.backend.engine.decode_at_once(model, texts, loops)
    for loop in loops:
        for _ in loop:
            pass


def _open_prompts(model: Decoder, prompts: list[HostArray], rows: HostArray, max_len: int) -> Opening:
    lengths = np.array([prompts[row].size for row in rows])
    longest, pad_id = int(lengths.max()), model.config.filler
    if longest > max_len:
        raise ConfigError(
            f"max_len: expected at least {longest}, the length of prompt {rows[lengths.argmax()]}, got {max_len}; "
            "it counts a text's tokens with those of the prompt"
        )
    texts = np.full((rows.size, max_len), pad_id, dtype=np.int64)
    tokens = np.full((rows.size, longest), pad_id, dtype=np.int64)
    inputs = [prompts[row] for row in rows]
    for i, prompt in enumerate(inputs):
        texts[i, : prompt.size] = tokens[i, longest - prompt.size :] = prompt
    begins = None if lengths.min() == longest else longest - lengths
    return Opening(model.start(rows.size, max_len, begins), tokens, texts, lengths, inputs, rows)


def _together(model: Decoder, prompts: list[HostArray]) -> list[HostArray]:
    """Groups of rows that one state can decode: all rows, or rows of one length if texts cannot be shifted."""
    lengths = np.array([prompt.size for prompt in prompts])
    if model.begins_anywhere:
        return [np.arange(lengths.size)]
    return [np.flatnonzero(lengths == length) for length in np.unique(lengths)]


def _rows(name: str, ids: Array, vocab_size: int, model: Writer) -> tuple[HostArray, list[HostArray]]:
    """ids (B, T), checked, on the host, and their rows without trailing padding."""
    if isinstance(ids, str) or (isinstance(ids, Sequence) and any(isinstance(row, str) for row in ids)):
        raise DTypeError(f"{name}: expected token ids (B, T), got a text; npf.decode(model, texts) takes texts")
    host = checked_ids(name, ids, vocab_size, model.backend)
    used = host != model.config.pad_id
    empty = np.flatnonzero(~used.any(axis=1))
    if empty.size:
        raise ShapeError(f"{name}: expected at least one token in each row, got padding alone in row {empty[0]}")
    ends = host.shape[1] - np.argmax(used[:, ::-1], axis=1)
    return host, [row[:end] for row, end in zip(host, ends, strict=True)]


def room(model: Transformer, max_len: int) -> int:
    """The positions to allocate for max_len tokens: no more than the model has, since rows may end earlier."""
    return min(max_len, model.config.max_seq_len) if model.config.positions == "learned" else max_len


def advance(model: Writer, tokens: Array, state: DecodeState) -> Array:
    """The logits after the newest token, (B, V), of a step from tokens (B,) or (B, n)."""
    engine = model.backend.engine
    logits = model.step(tokens, state) if engine is None else engine.step(model, tokens, state)
    return logits if logits.ndim == 2 else logits[:, -1, :]


def eos_token(eos_id: Any) -> int:
    """eos_id as an int, or −1, which is no token id, for None. Raises ConfigError for anything else."""
    if eos_id is None:
        return -1
    if not isinstance(eos_id, Integral):
        raise ConfigError(f"eos_id: expected a token id, or None for texts that no token ends, got {eos_id!r}")
    number = int(eos_id)
    return number if 0 <= number < 1 << 62 else -1


#: (name, value) -> value as a Python int, which cannot overflow. Raises ConfigError unless it is an integer >= 1.
expect_count = partial(whole_number, at_least=1)
