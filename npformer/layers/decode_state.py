"""What decoding remembers from one step to the next, so that nothing is computed twice.

A new token asks the tokens before it, whose keys and values do not change any more: causal attention
never lets a token see what comes after it. So they are kept, in buffers with room for max_len
positions, and a step computes its own tokens alone. The memory's keys and values are all known at
the start.

    own     (B, H, max_len, D)   keys and values of the targets so far, for each layer
    memory  (B/w, H, S, D)       those of the source, for each layer; None without cross-attention

Rows of the same source read the same memory: where a search has w rows of each source, one after the
other, the memory has one for all of them.

Only ``length`` says how much of a buffer is filled, and it moves last: a step that fails leaves
nothing behind.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from npformer.backend import Backend, workspace
from npformer.errors import ConfigError, DTypeError, ShapeError
from npformer.functional import ALL_VISIBLE, AttentionMask
from npformer.functional.arrays import device_of, namespace
from npformer.typing import Array, HostArray


class Past(Protocol):
    """What a mechanism keeps of the tokens that it has seen."""

    def select(self, rows: Array, length: int) -> Past:
        """A copy that holds these rows, integers (n,), of the first length positions."""

    def reorder(self, moves: Moves, length: int) -> Past:
        """Put n <= B rows in the place of the rows there are; returns what they are now."""


class Moves(NamedTuple):
    """Which rows n rows go on from, on the host."""

    rows: HostArray  # (n,)
    changed: HostArray  # (m,) those of the n that go on from another one
    sources: HostArray  # (m,) and from which

    @classmethod
    def of(cls, rows: HostArray) -> Moves:
        changed = (rows != np.arange(rows.size)).nonzero()[0]
        return cls(rows, changed, rows[changed])


class KeyValues(NamedTuple):
    """Room for keys and values of S positions: the past of softmax attention."""

    keys: Array  # (B, H, S, D)
    values: Array  # (B, H, S, D)

    @classmethod
    def empty(cls, backend: Backend, batch: int, heads: int, max_len: int, width: int) -> KeyValues:
        """For S = max_len positions, D = width."""
        shape = (batch, heads, max_len, width)
        return cls(backend.zeros(shape), backend.zeros(shape))

    def write(self, start: int, keys: Array, values: Array) -> tuple[Array, Array]:
        """Put n positions (B, H, n, D) at start; returns all up to them, (B, H, start + n, D), as views."""
        stop = start + keys.shape[2]
        self.keys[:, :, start:stop, :] = keys
        self.values[:, :, start:stop, :] = values
        return self.first(stop)

    def first(self, stop: int) -> tuple[Array, Array]:
        """Keys and values (B, H, stop, D) of the first positions, as views."""
        return self.keys[:, :, :stop, :], self.values[:, :, :stop, :]

    def select(self, rows: Array, length: int) -> KeyValues:
        return KeyValues(*(_selected(part, rows, length, axis=2) for part in self))

    def reorder(self, moves: Moves, length: int) -> KeyValues:
        for part in self:
            _reorder(part, moves, length, axis=2)
        n = moves.rows.size
        return self if n == self.keys.shape[0] else KeyValues(*(part[:n, ...] for part in self))


class LayerState(NamedTuple):
    """What one decoder layer remembers."""

    own: Past
    memory: KeyValues | None


@dataclass
class DecodeState:
    """The state of one decoding run; a model's ``start`` makes it and its ``step`` moves it on.

    positions and visible have room for max_len tokens; visible is False where a token was padding. With
    begins, texts of unequal length end together: row b begins at begins_b, and what comes before is padding.
    """

    backend: Backend
    layers: tuple[LayerState, ...]
    positions: Array  # (max_len, C)
    visible: Array  # (B, max_len) boolean
    sources: HostArray  # (B,) which row of the start each row comes from
    memory_mask: AttentionMask = ALL_VISIBLE
    length: int = 0  # tokens of each row so far
    fused: Any = None  # a step that was prepared for this state, see runtime/fused_decode.py
    begins: np.ndarray[Any, Any] | None = None  # (B,) where each row's own text begins; None: at 0
    together: int = 1  # w: so many rows in turn read one row of the memory

    @property
    def batch(self) -> int:
        """B: how many rows there are."""
        return int(self.visible.shape[0])

    @property
    def max_len(self) -> int:
        """How many tokens of each row there is room for."""
        return int(self.visible.shape[1])

    def admit(self, visible: Array) -> AttentionMask:
        """Note which of the next n tokens may be looked at, boolean (B, n); returns the mask of their step.

        ``length`` is for the step to move, once it is done. Raises ShapeError if there is not one row for
        each of the state's, or no room.
        """
        batch, n = visible.shape
        stop = self.length + n
        if batch != self.batch:
            raise ShapeError(f"tokens: expected one row for each of the state's B={self.batch}, got {batch}")
        if stop > self.max_len:
            raise ShapeError(
                f"tokens: expected at most {self.max_len - self.length} more of max_len={self.max_len}, got {n}; "
                "start with room for more (learned positions end at max_seq_len)"
            )
        self.visible[:, self.length : stop] = visible
        return AttentionMask(key_visible=self.visible[:, :stop], causal=True, query_offset=self.length)

    def position_encodings(self, n: int) -> Array:
        """What is added to the next n tokens: (n, C), or (B, n, C) if rows begin at places of their own."""
        stop = self.length + n
        if self.begins is None:
            return self.positions[self.length : stop, :]
        room, width = self.positions.shape
        position = np.arange(self.length, stop) - self.begins[:, None]  # (B, n)
        position = np.clip(position, 0, room - 1)  # only padding stands elsewhere
        xp = namespace(self.positions)
        return xp.reshape(_take(self.positions, self.backend.integers(position.ravel())), (self.batch, n, width))

    def select(self, rows: Any) -> DecodeState:
        """A state of its own with these rows, host integers (n,) in [0, B), in any order, any of them repeated.

        What a search needs to go on with its best rows, or to let rows go that have ended. Raises
        ShapeError, DTypeError or ConfigError for anything else.
        """
        chosen = _row_numbers(rows, self.batch)
        on_device = self.backend.integers(chosen)
        own = [layer.own.select(on_device, self.length) for layer in self.layers]
        visible = _selected(self.visible, on_device, self.length, axis=1)
        return replace(self, **self._of_rows(chosen, own, visible))

    def reorder(self, rows: Any) -> None:
        """Let these be the rows from now on: host integers (n,), n <= B, that say which row each goes on from.

        Like select, but in the memory there is. Raises what select raises, and ShapeError for more rows.
        """
        chosen = _row_numbers(rows, self.batch)
        if chosen.size > self.batch:
            raise ShapeError(
                f"rows: expected no more than the B={self.batch} rows there are, got {chosen.size}; use select"
            )
        moves = Moves.of(chosen)
        if chosen.size == self.batch and not moves.changed.size:
            return
        own = [layer.own.reorder(moves, self.length) for layer in self.layers]
        _reorder(self.visible, moves, self.length, axis=1)
        if chosen.size == self.batch and np.array_equal(self.sources[chosen], self.sources):  # as in a beam
            self.begins = None if self.begins is None else self.begins[chosen]
            return
        for name, value in self._of_rows(chosen, own, self.visible[: chosen.size, :]).items():
            setattr(self, name, value)

    def _of_rows(self, chosen: HostArray, own: list[Past], visible: Array) -> dict[str, Any]:
        """What there is to know of these rows, by name, given what the layers keep of them."""
        mask, sources = self.memory_mask, self.sources[chosen]
        together = _in_turn(sources)
        memory = [layer.memory for layer in self.layers]
        if not np.array_equal(sources[::together], self.sources[:: self.together]):
            on_device = self.backend.integers(chosen[::together] // self.together)
            memory = [
                None if kept is None else KeyValues(*(_take(part, on_device) for part in kept)) for kept in memory
            ]
            if mask.key_visible is not None:
                mask = replace(mask, key_visible=_take(mask.key_visible, on_device))
        return {
            "layers": tuple(map(LayerState, own, memory)),
            "visible": visible,
            "memory_mask": mask,
            "sources": sources,
            "together": together,
            "fused": None,
            "begins": None if self.begins is None else self.begins[chosen],
        }


def _in_turn(sources: HostArray) -> int:
    """The largest w for which sources (n,) is made of w equal numbers, then w equal numbers, and so on."""
    ends = np.append(np.flatnonzero(sources[1:] != sources[:-1]) + 1, sources.size)
    return int(np.gcd.reduce(ends))


def _take(x: Array, rows: Array) -> Array:
    return namespace(x).take(x, rows, axis=0)


def _selected(buffer: Array, rows: Array, length: int, axis: int) -> Array:
    """A new buffer with these rows; of its positions, along axis, only the first length are copied, and ever read."""
    xp, filled = namespace(buffer), _filled(buffer, length, axis)
    if isinstance(buffer, np.ndarray):
        host = workspace.empty((rows.shape[0], *buffer.shape[1:]), buffer.dtype)
        host[filled] = buffer[filled][rows]
        return host
    new = xp.empty((rows.shape[0], *buffer.shape[1:]), dtype=buffer.dtype, device=device_of(buffer))
    new[filled] = xp.take(buffer[filled], rows, axis=0)
    return new


def _reorder(buffer: Array, moves: Moves, length: int, axis: int) -> None:
    """_selected, in place: they become the first rows."""
    part = buffer[_filled(buffer, length, axis)]
    if isinstance(buffer, np.ndarray):  # the standard cannot write to some rows
        part[moves.changed] = part[moves.sources]
    else:
        part[: moves.rows.size, ...] = _take(part, namespace(part).asarray(moves.rows, device=device_of(part)))


def _filled(buffer: Array, length: int, axis: int) -> tuple[slice, ...]:
    """The part of a buffer that holds the first length positions, which lie along axis."""
    return (*(slice(None) for _ in range(axis)), slice(length), *(slice(None) for _ in range(axis + 1, buffer.ndim)))


def _row_numbers(rows: Any, batch: int) -> HostArray:
    found = np.asarray(rows)
    if found.ndim != 1 or found.size == 0:
        raise ShapeError(f"rows: expected row numbers (n,), at least one, got {tuple(found.shape)}")
    if found.dtype.kind not in "iu":
        raise DTypeError(f"rows: expected row numbers, got {found.dtype}; np.flatnonzero makes them of booleans")
    if found.min() < 0 or found.max() >= batch:
        raise ConfigError(f"rows: expected row numbers with 0 <= row < B={batch}, got {found.tolist()}")
    return found
