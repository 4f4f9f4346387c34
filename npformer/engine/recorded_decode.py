"""Recorded decoding: the step of a model as one graph, which every token launches, whatever its position.

A graph reads and writes fixed addresses. So the arrays of a decode state move to a ``Room``: buffers that later states
of the same shapes use again. The position and the newest tokens are there, too, and the graph itself chooses the next
tokens, so that the host launches several steps before it looks at them. Attention reads a power of two of positions,
and those behind the newest token are hidden; a graph is recorded for each such number.

A model is decoded as it is written if one of its layers takes the position as a number of the host: rotary and relative
positions, local and linear attention, and, since nobody knows, classes that are not npformer's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import repeat
from operator import attrgetter, is_
from typing import Any, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary, ref

import numpy as np

from npformer.engine.capabilities import capabilities_of
from npformer.engine.capture import Driver, free_if_full
from npformer.engine.cuda.attention_arguments import strided, with_neighbours
from npformer.engine.cuda.device_runtime import DeviceRuntime, warps, whole_blocks
from npformer.engine.static import has_own_ops, is_npformers, is_static
from npformer.functional import AttentionMask
from npformer.functional.arrays import namespace
from npformer.layers import Context, DecodeState, KeyValues, LayerState, MultiHeadAttention, ScaledDotProduct
from npformer.layers.owner import version_of
from npformer.models import Decoder, Transformer
from npformer.models.inputs import checked_ids
from npformer.typing import Array, HostArray

LOOK = 8  # tokens of a row that are chosen before the host looks whether all rows have ended
READ, SOURCE = 64, 16  # positions that an attention reads at least; sources are as long as a multiple of this
ROOMS, SHARE = 8, 0.125  # kept for a model, and of the memory of its device; the newest one in any case
FEW_SOURCES = 32  # buffers for n sources also serve fewer: at least n/4 of them, or any if n is at most this
#: model -> (the version for which something was prepared, what).
Prepared: TypeAlias = "WeakKeyDictionary[Any, tuple[int, Any]]"
of_state = attrgetter("positions", "visible", "layers", "memory_mask")
_prepared: Prepared = WeakKeyDictionary()


def prepared(cache: Prepared, model: Any, prepare: Callable[[], Any]) -> Any:
    """What prepare returned for this version of the model; None if its step is not recorded."""
    version = version_of(model)
    entry = cache.get(model)
    if entry is None or entry[0] != version:
        cache[model] = entry = (version, prepare() if is_recordable(model) else None)
    return entry[1]


def is_recordable(model: Transformer | Decoder) -> bool:
    """Whether all layers are npformer's, as they came, and no attention takes a position on the host."""
    heads = set()
    for part in model.decoder.all_layers():
        if isinstance(part, MultiHeadAttention):
            heads.add(part.num_heads)
            if type(part.mechanism) is not ScaledDotProduct or part.rotation or part.score_bias:
                return False
    return len(heads) == 1 and is_npformers(model) and is_static(model) and has_own_ops(model)


def step(model: Transformer | Decoder, tokens: Array, state: DecodeState) -> Array:
    """model.step(tokens, state), as one graph if it can be recorded."""
    room = None if model.backend.device.owns(tokens) else _room_of(model, state, np.asarray(tokens))
    if room is None:
        return model.step(tokens, state)
    now = newest_numbers(model, tokens, np.ones(state.batch), state, room.now.shape[1])
    (logits,) = room.launch(model, state.length, -1, now)
    state.length += 1
    newest: Array = logits[: state.batch, 0, :]
    return newest


def likeliest(
    model: Transformer | Decoder, tokens: Array, state: DecodeState, going: HostArray, count: int, eos_id: int
) -> HostArray | None:
    """``FastEngine.likeliest``: up to ``LOOK`` steps, a launch each, and then a look at what they have chosen."""
    room = _room_of(model, state, tokens)
    if room is None:
        return None
    room.now[...] = model.backend.integers(newest_numbers(model, tokens, going, state, room.now.shape[1]))
    start, stop = state.length, min(state.length + min(count, LOOK), state.max_len)
    for _ in range(start, stop):
        room.launch(model, stop - 1, eos_id)
    chosen: HostArray = model.backend.host(room.chosen[start:stop, : state.batch])
    state.length = stop
    return chosen


def _room_of(model: Transformer | Decoder, state: DecodeState, tokens: HostArray) -> Room | None:
    """The room that has the arrays of state; None if its next step is not recorded, or if tokens are none for it."""
    make = capabilities_of(model).rooms
    rooms: Rooms | None = None if make is None else prepared(_prepared, model, make)
    if rooms is None or not has_next(state, tokens):
        return None
    if (state.memory_mask.key_visible is None) != (state.layers[0].memory is None):
        return None
    found: Room = remembered(state, rooms, lambda: rooms.enter(state))
    return found


def has_next(state: DecodeState, tokens: HostArray) -> bool:
    """Whether state has room for one more token of each row, and these are such tokens (B,)."""
    return tokens.shape == (state.batch,) and state.length < state.max_len


def remembered(state: DecodeState, records: Any, make: Callable[[], Any]) -> Any:
    """What ``make`` made of these records and the arrays of state: anew, if one of them is another than before."""
    if state.recorded is None or not all(map(is_, (records, *of_state(state)), state.recorded[0])):
        made = make()  # perhaps with other arrays for state
        state.recorded = (records, *of_state(state)), made
    return state.recorded[1]


def newest_numbers(
    model: Transformer | Decoder, tokens: Array, going: HostArray, state: DecodeState, rows: int
) -> HostArray:
    """``now`` (4, rows) for tokens (B,), which are checked as model.step does; the rows left over are fed pads."""
    vocab_size = model.config.tgt_vocab_size if isinstance(model, Transformer) else model.config.vocab_size
    now: HostArray = np.zeros((4, rows), np.int64)
    now[0], now[2] = model.config.filler, state.length
    now[0, : state.batch] = checked_ids("tokens", np.asarray(tokens)[:, None], vocab_size, model.backend)[:, 0]
    now[1, : state.batch] = going
    now[3, : state.batch] = state.length - (0 if state.begins is None else state.begins)
    return now


def logits_of(
    model: Any, now: Array, encodings_of: Callable[[Array], Array], layers: tuple[LayerState, ...], *visible: Any
) -> Array:
    """What is recorded of a step, as in model.step, but for the position: from now (4, B) to logits (B, 1, V).

    encodings_of(x) are the position encodings (B, 1, C); visible are the masks of the keys so far and of the source's.
    """
    embedding = model.tgt_embedding if isinstance(model, Transformer) else model.embedding
    x = embedding(now[0, :, None])
    x = x + encodings_of(x)
    mask, memory_mask = (AttentionMask(key_visible=keys) for keys in visible)
    context = Context(mask, memory_mask)
    logits: Array = model.generator(model.decoder.step(x, layers, context))
    return logits


class Rooms:
    """The rooms for one version of a model, and the graphs of its step; ``capture`` is the engine's."""

    def __init__(self, gpu: DeviceRuntime, capture: Callable[..., Any], driver: Driver) -> None:
        self.gpu, self.rooms, self.made = gpu, list[Room](), 0  # the room used last is the last
        self.driver = driver
        free_if_full(self)
        self.steps = capture(lambda subject, inputs: subject[0].step(subject[1], *inputs), lambda subject: ())
        self.moves = capture(lambda room, inputs: room.moved(*inputs), lambda room: ())

    def enter(self, state: DecodeState) -> Room:
        """Move the arrays of state to a room that no other state uses."""
        shape, sources = _shape_of(state), state.batch // state.together
        free = [room for room in self.rooms if room.shape == shape and (room.owner() is None or room.owner() is state)]
        fitting = [room for room in free if sources <= room.sources <= max(4 * sources, FEW_SOURCES)]
        if not fitting:
            self.made += 1
            fitting = [Room(self, state)]
        room = min(fitting, key=lambda room: room.sources)
        room.enter(state)
        self.rooms = [*(each for each in self.rooms if each is not room), room]
        most = SHARE * (state.backend.device.memory or math.inf)  # type: ignore[attr-defined]
        while len(self.rooms) > ROOMS or (len(self.rooms) > 1 and sum(each.bytes for each in self.rooms) > most):
            del self.rooms[0]
        return room

    def clear(self) -> None:
        """Drop the rooms that no state is in."""
        self.rooms = [room for room in self.rooms if room.owner() is not None]


def _shape_of(state: DecodeState) -> tuple[int, ...]:
    """(layers, heads, width, positions, length of the sources, w) of the room for a state."""
    _, heads, most, width = state.layers[0].past.keys.shape  # type: ignore[attr-defined]
    positions, source = -(-most // READ) * READ, -(-_length_of_source(state) // SOURCE) * SOURCE
    return len(state.layers), heads, width, positions, source, state.together


def _length_of_source(state: DecodeState) -> int:
    memory = state.layers[0].memory
    return 0 if memory is None else int(memory.keys.shape[2])


class Room:
    """Buffers for decode states of one shape, of ``sources`` sources or fewer; the rows left over are fed pads."""

    def __init__(self, rooms: Rooms, state: DecodeState) -> None:
        zeros, dtype, batch = state.backend.device.zeros, state.backend.dtype, state.batch
        self.shape, self.sources, self.number = _shape_of(state), batch // state.together, rooms.made
        self.gpu, self.steps, self.moves = rooms.gpu, rooms.steps, rooms.moves
        layers, heads, width, positions, source, _ = self.shape
        self.own = zeros((layers, 2, batch, heads, positions, width), dtype)
        self.memory = zeros((layers, 2, self.sources, heads, source, width), dtype)
        self.visible, self.memory_visible = zeros((batch, positions), "bool"), zeros((self.sources, source), "bool")
        self.encodings = zeros((positions, state.positions.shape[1]), dtype)
        self.now, self.chosen = zeros((4, batch), "int64"), zeros((positions, batch), "int64")  # as in decoding.cu
        self.bytes = self.own.nbytes + self.memory.nbytes  # and little more

    def enter(self, state: DecodeState) -> None:
        """Move the arrays of state here. What is behind them is read, too, with a weight of 0: it must not be NaN."""
        self.owner = ref(state)
        length, source, mask, layers = state.length, _length_of_source(state), state.memory_mask.key_visible, []
        self.own[..., length:, :] = self.memory[..., source:, :] = 0
        self.visible[:, length:] = self.memory_visible[:, source:] = False
        for i, (past, memory) in enumerate(state.layers):
            own = KeyValues(*map(_put, past, self.own[i, ...], repeat(length)))  # type: ignore[call-overload]
            if memory is not None:
                memory = KeyValues(*map(_put, memory, self.memory[i, ...], repeat(source)))
            layers.append(LayerState(own, memory))
        if mask is not None:
            mask = _put(mask[:, :, None], self.memory_visible[:, :, None], source)[:, :, 0]
            state.memory_mask = AttentionMask(key_visible=mask)
        state.visible = _put(state.visible[:, :, None], self.visible[:, :, None], length)[:, :, 0]
        self.encodings[: state.positions.shape[0], :] = state.positions
        state.layers, state.move = tuple(layers), self.move

    def launch(self, model: Transformer | Decoder, last: int, eos_id: int, *now: HostArray) -> Any:
        """A step up to position last. It returns (logits,) for rows now, or () if the rows here choose themselves."""
        ends = slice(eos_id, model.config.pad_id)
        return self.steps((self, model), (slice(self.number, self._seen(last)), ends, *now))

    def move(self, rows: HostArray, length: int) -> None:
        """``DecodeState.move``, by one launch."""
        all_rows = np.arange(self.visible.shape[0])
        all_rows[: rows.size] = rows
        self.moves(self, (slice(self.number, self._seen(length - 1)), all_rows))

    def _seen(self, last: int) -> int:
        return min(self.shape[3], READ << (last // READ).bit_length())

    def moved(self, place: slice, rows: Array) -> tuple[()]:
        """What is recorded of a move. All is read before anything is written."""
        own, visible = self.own[:, :, :, :, : place.stop, :], self.visible[:, : place.stop]
        take = namespace(own).take
        own[...], visible[...] = take(own, rows, axis=2), take(visible, rows, axis=0)
        return ()

    def step(self, model: Any, place: slice, ends: slice, *rows: Array) -> tuple[Array, ...]:
        """What is recorded of a step; as model.step, but for the position."""
        (now,), seen, (eos_id, pad_id), layers = rows or (self.now,), place.stop, (ends.start, ends.stop), []
        for own, memory in zip(self.own, self.memory, strict=True):
            past: Any = Newest(self, now, own[0, ...], own[1, ...], seen, pad_id)
            layers.append(LayerState(past, KeyValues(memory[0, ...], memory[1, ...])))
        encodings = namespace(now).take(self.encodings, now[3, ...], axis=0)[:, None, :]
        visible = self.visible[:, :seen], self.memory_visible
        logits = logits_of(model, now, lambda _: encodings, tuple(layers), *visible)
        if rows:
            return (logits,)
        choose(self.gpu, logits, now, self.chosen, eos_id, max(pad_id, 0))
        return ()


def _put(x: Array, to: Array, length: int) -> Array:
    """The part of to (B, …, P, ·) for x (n, …, p, ·), with x's first length positions."""
    part = to[: x.shape[0], ..., : x.shape[-2], :]
    if length:
        part[..., :length, :] = x[..., :length, :]
    return part


class Newest(NamedTuple):
    """The past of a layer while its step is recorded: keys and values (B, H, positions, D)."""

    room: Any
    now: Array
    keys: Array
    values: Array
    seen: int
    pad_id: int

    def write(self, start: int, *newest: Array) -> tuple[Array, Array]:
        """``KeyValues.write`` of keys and values (B, H, 1, D), at the position of now, up to the positions seen."""
        gpu = self.room.gpu
        (k, *of_k, _), (v, *of_v, _) = (strided(with_neighbours(gpu, x)) for x in newest)
        gpu.launch(
            "decoding.write_newest", k.dtype, whole_blocks(k.size), 256,
            k, v, *of_k, *of_v, self.keys, self.values, self.room.visible, self.now, *self.keys.shape, self.pad_id,
        )  # fmt: skip
        return self.keys[:, :, : self.seen, :], self.values[:, :, : self.seen, :]


def choose(gpu: DeviceRuntime, logits: Array, now: Array, chosen: Array, eos_id: int, pad_id: int) -> None:
    """The likeliest tokens of logits (B, 1, V) become the newest ones, at the next position."""
    (rows, _, width), x = logits.shape, gpu.contiguous(logits)
    gpu.launch("decoding.choose", x.dtype, rows, warps(width, 256), x, now, chosen, rows, width, eos_id, pad_id)
