"""Recorded decoding: the step of a model as one graph, which every token launches, whatever its position.

A graph reads and writes fixed addresses. So the arrays of a decode state move into a ``Room``: buffers that outlive the
state and are used again for states of the same shapes. Position, newest tokens and the rows that go on are in the room,
too, and the graph itself chooses the next tokens, so a search may launch it several times before it looks.

A room has as many positions as it may need. The positions that an attention reads are a power of two, and those beyond
the newest token are hidden; a graph is recorded for each such number. Other rows than the state's are fed pads.

A model is decoded as it is written if the position in one of its layers is a number of the host: rotary and relative
positions, local and linear attention, and every class that is not npformer's.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import is_
from typing import Any
from weakref import WeakKeyDictionary, ref

import numpy as np

from npformer.engine.capabilities import capabilities_of
from npformer.engine.cuda.decoding import Newest, Rows
from npformer.engine.cuda.device_runtime import DeviceRuntime
from npformer.engine.fused_decode import of_state
from npformer.engine.fused_parts import Prepared, prepared
from npformer.functional import AttentionMask
from npformer.layers import Context, DecodeState, KeyValues, LayerState, MultiHeadAttention, ScaledDotProduct
from npformer.models import Decoder, Transformer
from npformer.models.inputs import checked_ids
from npformer.typing import Array, HostArray

LOOK = 8  # tokens of a row that are chosen before the host looks whether all rows have ended
READ, SOURCE = 64, 16  # positions that an attention reads at least; sources are as long as a multiple of this
MOST_ROOMS = 16  # kept for one model
FEW = 32  # a room serves fewer sources than it has, if they are a quarter of them, or it has no more than this
_prepared: Prepared = WeakKeyDictionary()


def step(model: Transformer | Decoder, tokens: Array, state: DecodeState) -> Array:
    """model.step(tokens, state), as one graph if it can be recorded."""
    room = None if model.backend.device.owns(tokens) or np.ndim(tokens) != 1 else _room_of(model, state)
    if room is None:
        return model.step(tokens, state)
    now = room.numbers(model, tokens, np.ones(state.batch), state)
    (logits,) = room.launch(model, state.length + 1, -1, now)
    state.length += 1
    newest: Array = logits[: state.batch, 0, :]
    return newest


def likeliest(
    model: Transformer | Decoder, tokens: Array, state: DecodeState, going: HostArray, count: int, eos_id: int
) -> HostArray | None:
    """``Engine.likeliest``: up to ``LOOK`` steps, a launch each, and a look at what they have chosen."""
    room = _room_of(model, state)
    if room is None:
        return None
    room.rows.now[...] = model.backend.integers(room.numbers(model, tokens, going, state))
    start = state.length
    stop = start + min(count, LOOK, state.max_len - start)
    for _ in range(start, stop):
        room.launch(model, stop, eos_id)
    chosen: HostArray = model.backend.host(room.rows.chosen[start:stop, : state.batch])
    state.length = stop
    return chosen


def _room_of(model: Transformer | Decoder, state: DecodeState) -> Room | None:
    """The room that has the arrays of state; None if steps of this model, or from this state, are not recorded."""
    make = capabilities_of(model).rooms
    rooms: Rooms | None = None if make is None else prepared(_prepared, model, _recordable, make)
    if rooms is None or not all(type(layer.past) is KeyValues for layer in state.layers):
        return None
    if state.fused is None or not all(map(is_, (rooms, *of_state(state)), state.fused[0])):
        room = rooms.enter(state)
        state.fused = (rooms, *of_state(state)), room
    found: Room = state.fused[1]
    return found


def _recordable(model: Transformer | Decoder) -> bool | None:
    """True if all layers are npformer's and no attention asks for a position on the host, else None."""
    attentions = [part for part in model.decoder.all_layers() if isinstance(part, MultiHeadAttention)]
    mine = all(type(part).__module__.startswith("npformer.") for part in (model, *model.all_layers()))
    return True if mine and all(map(_without_position, attentions)) else None


def _without_position(one: MultiHeadAttention) -> bool:
    return type(one.mechanism) is ScaledDotProduct and one.rotation is None and one.score_bias is None


class Rooms:
    """The rooms for one version of a model, and the graphs of its step; ``capture`` is the engine's."""

    def __init__(self, gpu: DeviceRuntime, capture: Callable[..., Any]) -> None:
        self.gpu, self.captured = gpu, capture(_launched, lambda subject: ())
        self._kept: list[Room] = []  # the one used last is the last
        self._made = 0

    def enter(self, state: DecodeState) -> Room:
        """Move the arrays of state to a room that no other state uses."""
        shape, sources = _shape_of(state), state.batch // state.together
        mine = [room for room in self._kept if room.owner() is state]
        free = [room for room in self._kept if room.owner() is None or room in mine]
        fitting = [room for room in free if room.shape == shape and sources <= room.sources <= max(4 * sources, FEW)]
        if fitting:
            room = min(fitting, key=lambda room: room.sources)
        else:
            self._made += 1
            room = Room(self, self._made, state)
        self._kept = [*(each for each in self._kept if each is not room), room][-MOST_ROOMS:]
        room.enter(state)
        for other in mine:
            other.owner = _nobody
        room.owner = ref(state)
        return room


def _shape_of(state: DecodeState) -> tuple[int, ...]:
    """(layers, heads, width, positions, length of the sources, w) of the room for a state; 0: no sources."""
    keys, memory = state.layers[0].past.keys, state.layers[0].memory  # type: ignore[attr-defined]
    source = 0 if memory is None else -(-memory.keys.shape[2] // SOURCE) * SOURCE
    return len(state.layers), keys.shape[1], keys.shape[3], -(-state.max_len // READ) * READ, source, state.together


def _nobody() -> None:
    return None


class Room:
    """Buffers for decode states of one shape, of ``sources`` sources or fewer."""

    def __init__(self, rooms: Rooms, number: int, state: DecodeState) -> None:
        self.shape, self.sources, self.number = _shape_of(state), state.batch // state.together, number
        self.owner: Callable[[], DecodeState | None] = _nobody
        self._captured = rooms.captured
        layers, heads, width, positions, source, _ = self.shape
        zeros, dtype, batch = state.backend.device.zeros, state.backend.dtype, state.batch
        self._own = zeros((layers, 2, batch, heads, positions, width), dtype)
        self._memory = zeros((layers, 2, self.sources, heads, source, width), dtype)
        self._memory_visible = zeros((self.sources, source), "bool")
        encodings, visible = zeros((positions, state.positions.shape[1]), dtype), zeros((batch, positions), "bool")
        now, chosen = zeros((4, batch), "int64"), zeros((positions, batch), "int64")
        self.rows = Rows(rooms.gpu, now, encodings, visible, chosen)

    def enter(self, state: DecodeState) -> None:
        """Move the arrays of state here. What they do not fill is set to 0: what is hidden is read, too."""
        n, length, mask = state.batch, state.length, state.memory_mask.key_visible
        self._own[:, :, :, :, length:, :] = 0
        self.rows.visible[:, length:] = False
        self.rows.visible[:n, :length] = state.visible[:, :length]
        self.rows.encodings[: state.positions.shape[0], :] = state.positions
        layers, sources = [], n // state.together
        for i, layer in enumerate(state.layers):
            past, memory = _moved(layer.past, self._own[i, :, :n, ...], length, state.max_len), layer.memory
            if memory is not None:
                length_of_source = memory.keys.shape[2]
                self._memory[i, :, :, :, length_of_source:, :] = 0
                memory = _moved(memory, self._memory[i, :, :sources, ...], length_of_source, length_of_source)
            layers.append(LayerState(past, memory))
        if mask is not None:
            self._memory_visible[:, mask.shape[1] :] = False
            self._memory_visible[:sources, : mask.shape[1]] = mask
            state.memory_mask = AttentionMask(key_visible=self._memory_visible[:sources, : mask.shape[1]])
        state.layers, state.visible = tuple(layers), self.rows.visible[:n, : state.max_len]

    def numbers(self, model: Transformer | Decoder, tokens: Array, going: HostArray, state: DecodeState) -> HostArray:
        """``now`` of ``decoding.cu`` for tokens (B,) of the host, checked as model.step does."""
        vocab_size = model.config.tgt_vocab_size if isinstance(model, Transformer) else model.config.vocab_size
        host = checked_ids("tokens", np.asarray(tokens)[:, None], vocab_size, model.backend)
        state.expect_room(*host.shape)
        now: HostArray = np.zeros(self.rows.now.shape, np.int64)
        now[0], now[2] = model.config.pad_id, state.length
        now[:2, : state.batch] = host[:, 0], going
        now[3, : state.batch] = state.length - (0 if state.begins is None else state.begins)
        return now

    def launch(self, model: Transformer | Decoder, stop: int, eos_id: int, now: HostArray | None = None) -> Any:
        """One step that ends before position stop: (logits,) of rows now, or () where the rows choose themselves."""
        seen = min(self.shape[3], READ << ((stop - 1) // READ).bit_length())
        numbers = () if now is None else (now,)
        return self._captured((model, self), (slice(self.number, seen), slice(eos_id, model.config.pad_id), *numbers))

    def step(self, model: Transformer | Decoder, seen: int, eos_id: int, pad_id: int, *now: Array) -> tuple[Array, ...]:
        """What is recorded."""
        rows = self.rows._replace(now=now[0]) if now else self.rows
        encodings = rows.begin(pad_id)
        visible = rows.gpu.contiguous(rows.visible[:, :seen])
        context = Context(AttentionMask(key_visible=visible), AttentionMask(key_visible=self._memory_visible))
        layers = []
        for i in range(self.shape[0]):
            past: Any = Newest(rows, self._own[i, 0, ...], self._own[i, 1, ...], seen)
            layers.append(LayerState(past, KeyValues(self._memory[i, 0, ...], self._memory[i, 1, ...])))
        logits = model.step_on_device(rows.now[0, :][:, None], encodings, tuple(layers), context)
        if now:
            return (logits,)
        rows.choose(logits, eos_id, pad_id)
        return ()


def _moved(kept: Any, to: Array, filled: int, most: int) -> KeyValues:
    """kept's first positions in the arrays to (2, B, H, ·, D), of which the first most are returned."""
    for i, part in enumerate(kept):
        to[i, :, :, :filled, :] = part[:, :, :filled, :]
    return KeyValues(to[0, :, :, :most, :], to[1, :, :, :most, :])


def _launched(subject: tuple[Transformer | Decoder, Room], inputs: Any) -> tuple[Array, ...]:
    (model, room), (place, ends, *now) = subject, inputs
    return room.step(model, place.stop, ends.start, ends.stop, *now)
