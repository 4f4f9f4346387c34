"""The state of decoding between steps, with the key-value cache, so that nothing is computed twice.

A new token attends to the tokens before it. Their keys and values no longer change, since causal attention
never lets a token see later ones. So they are kept in buffers with room for max_len
positions, and a step computes only its own tokens. The keys and values of the memory are all known at
the start.

    own     (B, H, max_len, D)   keys and values of the targets so far, for each layer
    memory  (B/w, H, S, D)       those of the source, for each layer; None without cross-attention

Rows of the same source read the same memory: if a search has w consecutive rows for each source, the memory has
one row for all w.

``length`` alone says how much of a buffer is filled, and a step sets it last. So a step that fails leaves the
state unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from npformer.backend import Backend, workspace
from npformer.errors import ConfigError, DTypeError, ShapeError
from npformer.functional import ALL_VISIBLE, AttentionMask
from npformer.functional.arrays import device_of, namespace
from npformer.typing import Array, HostArray


class Past(Protocol):
    """What a mechanism keeps of the tokens before, such as the key-value cache."""

    def select(self, rows: Array, length: int) -> Past:
        """A copy that holds these rows, integers (n,), of the first length positions."""

    def reorder(self, moves: Moves, length: int) -> Past:
        """Replace the rows by n <= B of them, in place. Returns the new past."""


class Moves(NamedTuple):
    """The parents of n rows, on the host."""

    rows: HostArray  # (n,)
    changed: HostArray  # (m,) the rows whose parent is another row
    sources: HostArray  # (m,) and those parents

    @classmethod
    def of(cls, rows: HostArray) -> Moves:
        changed = (rows != np.arange(rows.size)).nonzero()[0]
        return cls(rows, changed, rows[changed])


class KeyValues(NamedTuple):
    """The key-value cache of softmax attention, with room for S positions."""

    keys: Array  # (B, H, S, D)
    values: Array  # (B, H, S, D)

    @classmethod
    def empty(cls, backend: Backend, batch: int, heads: int, max_len: int, width: int) -> KeyValues:
        """A cache for S = max_len positions and heads of width D, uninitialised as with ``np.empty``."""
        shape, like = (batch, heads, max_len, width), backend.zeros(())
        return cls(_empty(shape, like), _empty(shape, like))

    def write(self, start: int, keys: Array, values: Array) -> tuple[Array, Array]:
        """Write n positions (B, H, n, D) at start. Returns all up to them, (B, H, start + n, D), as views."""
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
    """The decode state of one layer."""

    past: Past
    memory: KeyValues | None


@dataclass
class DecodeState:
    """The state of one decoding run. A model's ``start`` creates it and its ``step`` advances it.

    positions and visible have room for max_len tokens; visible is False where a token was padding. With
    begins, texts of unequal length are padded on the left: row b begins at begins_b, and all before is padding.
    """

    backend: Backend
    layers: tuple[LayerState, ...]
    positions: Array  # (max_len, C)
    visible: Array  # (B, max_len) boolean
    sources: HostArray  # (B,) the row of the start from which each row comes
    memory_mask: AttentionMask = ALL_VISIBLE
    length: int = 0  # tokens of each row so far
    recorded: Any = None  # what an engine has for this state, see engine/recorded_decode.py
    move: Callable[[HostArray, int], None] | None = None  # (rows, length): an engine's reorder within the sources
    begins: np.ndarray[Any, Any] | None = None  # (B,) where each row's text begins; None: at 0
    together: int = 1  # w: this many consecutive rows read one row of the memory

    @property
    def batch(self) -> int:
        """B: the number of rows."""
        return int(self.visible.shape[0])

    @property
    def max_len(self) -> int:
        """The number of tokens per row that the buffers hold."""
        return int(self.visible.shape[1])

    def admit(self, visible: Array) -> AttentionMask:
        """Store which of the next n tokens are visible, boolean (B, n). Returns the attention mask of their step.

        The step itself advances ``length`` once it is done. Raises ShapeError if visible has not the state's B
        rows, or if there is no room.
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
        """The position encodings of the next n tokens: (n, C), or (B, n, C) if rows begin at different positions."""
        stop = self.length + n
        if self.begins is None:
            return self.positions[self.length : stop, :]
        room, width = self.positions.shape
        position = np.arange(self.length, stop) - self.begins[:, None]  # (B, n)
        position = np.clip(position, 0, room - 1)  # only padding is outside
        xp = namespace(self.positions)
        return xp.reshape(_take(self.positions, self.backend.integers(position.ravel())), (self.batch, n, width))

    def select(self, rows: Any) -> DecodeState:
        """A new state with these rows, host integers (n,) in [0, B), in any order, also repeated.

        A search uses it to continue with its best rows, or to remove rows that have ended. Raises
        ShapeError, DTypeError or ConfigError for anything else.
        """
        chosen = _row_numbers(rows, self.batch)
        on_device = self.backend.integers(chosen)
        pasts = [layer.past.select(on_device, self.length) for layer in self.layers]
        visible = _selected(self.visible, on_device, self.length, axis=1)
        return replace(self, **self._of_rows(chosen, pasts, visible))

    def reorder(self, rows: Any) -> None:
        """Replace the rows in place: host integers (n,), n <= B, give the parent of each new row.

        Like select, but without new memory. Raises the errors of select, and ShapeError for more than B rows.
        """
        chosen = _row_numbers(rows, self.batch)
        if chosen.size > self.batch:
            raise ShapeError(
                f"rows: expected no more than the B={self.batch} rows there are, got {chosen.size}; use select"
            )
        moves = Moves.of(chosen)
        if chosen.size == self.batch and not moves.changed.size:
            return
        is_beam = chosen.size == self.batch and np.array_equal(self.sources[chosen], self.sources)
        if is_beam and self.move is not None:
            self.move(chosen, self.length)
            self.begins = None if self.begins is None else self.begins[chosen]
            return
        pasts = [layer.past.reorder(moves, self.length) for layer in self.layers]
        _reorder(self.visible, moves, self.length, axis=1)
        if is_beam:
            self.begins = None if self.begins is None else self.begins[chosen]
            if any(new is not layer.past for new, layer in zip(pasts, self.layers, strict=True)):  # else recorded stays
                self.layers = tuple(LayerState(new, old.memory) for new, old in zip(pasts, self.layers, strict=True))
            return
        for name, value in self._of_rows(chosen, pasts, self.visible[: chosen.size, :]).items():
            setattr(self, name, value)

    def _of_rows(self, chosen: HostArray, pasts: list[Past], visible: Array) -> dict[str, Any]:
        """The fields of a state with these rows, by name, given the pasts of the layers."""
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
            "layers": tuple(map(LayerState, pasts, memory)),
            "visible": visible,
            "memory_mask": mask,
            "sources": sources,
            "together": together,
            "recorded": None,
            "move": None,
            "begins": None if self.begins is None else self.begins[chosen],
        }


def _in_turn(sources: HostArray) -> int:
    """The largest w for which sources (n,) is made of w equal numbers, then w equal numbers, and so on."""
    ends = np.append(np.flatnonzero(sources[1:] != sources[:-1]) + 1, sources.size)
    return int(np.gcd.reduce(ends))


def _take(x: Array, rows: Array) -> Array:
    return namespace(x).take(x, rows, axis=0)


def _selected(buffer: Array, rows: Array, length: int, axis: int) -> Array:
    """A new buffer with these rows. Only the first length positions along axis are copied; no others are ever read."""
    filled = _filled(buffer, length, axis)
    part, new = buffer[filled], _empty((rows.shape[0], *buffer.shape[1:]), buffer)
    new[filled] = part[rows] if isinstance(part, np.ndarray) else _take(part, rows)  # np.take copies all of part first
    return new


def _empty(shape: tuple[int, ...], like: Array) -> Array:
    """An uninitialised array of like's dtype on its device. On the host its memory is reused, without page faults."""
    if isinstance(like, np.ndarray):
        return workspace.empty(shape, like.dtype)
    return namespace(like).empty(shape, dtype=like.dtype, device=device_of(like))


def _reorder(buffer: Array, moves: Moves, length: int, axis: int) -> None:
    """_selected, in place: the chosen rows become the first ones."""
    part = buffer[_filled(buffer, length, axis)]
    if isinstance(buffer, np.ndarray):  # the array API standard has no assignment to a list of rows
        part[moves.changed] = part[moves.sources]
    else:
        part[: moves.rows.size, ...] = _take(part, namespace(part).asarray(moves.rows, device=device_of(part)))


def _filled(buffer: Array, length: int, axis: int) -> tuple[slice, ...]:
    """The part of a buffer with the first length positions along axis."""
    return (*[slice(None)] * axis, slice(length), *[slice(None)] * (buffer.ndim - axis - 1))


def _row_numbers(rows: Any, batch: int) -> HostArray:
    numbers = np.asarray(rows)
    if numbers.ndim != 1 or numbers.size == 0:
        raise ShapeError(f"rows: expected row numbers (n,), at least one, got {tuple(numbers.shape)}")
    if numbers.dtype.kind not in "iu":
        raise DTypeError(f"rows: expected row numbers, got {numbers.dtype}; np.flatnonzero makes them of booleans")
    if numbers.min() < 0 or numbers.max() >= batch:
        raise ConfigError(f"rows: expected row numbers with 0 <= row < B={batch}, got {numbers.tolist()}")
    return numbers
