"""Checks of a model's inputs: token ids are checked on the host before they are copied to a device.

CuPy silently wraps an index that is out of range around, so no later code would notice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npformer.backend import Backend
from npformer.errors import DTypeError, ShapeError, TokenError
from npformer.models.config import Ids
from npformer.typing import Array, HostArray


def token_ids(name: str, ids: Any, vocab_size: int, backend: Backend) -> Array:
    """ids (B, T), integers in [0, vocab_size), as int64 on the backend's device.

    ids may be a NumPy array, nested lists, or an array on the device (which is read back to be
    checked; pass NumPy arrays to avoid that synchronisation). Raises ShapeError, DTypeError, TokenError.
    """
    host = checked_ids(name, ids, vocab_size, backend)
    if backend.device.owns(ids) and host.dtype == np.int64:
        # a copy: a cache keeps the ids, and the caller may write the next batch into the same array
        return np.array(ids) if isinstance(ids, np.ndarray) else ids
    return backend.integers(host)  # int64: narrow integers would overflow in comparisons with the vocabulary's size


def checked_batch(wanted: Sequence[Ids], batch: Sequence[Any], backend: Backend) -> list[HostArray]:
    """The arrays of a batch on the host, each checked by checked_ids, if their shapes fit each other.

    Raises ShapeError if they do not, and the errors of checked_ids.
    """
    names = ", ".join(ids.name for ids in wanted)
    if len(batch) != len(wanted):
        raise ShapeError(f"{names}: expected {len(wanted)} arrays, the targets last, got {len(batch)}")
    checked = [
        checked_ids(ids.name, x, ids.below, backend, per_row=len(ids.shape) == 1)
        for ids, x in zip(wanted, batch, strict=True)
    ]
    lengths: dict[str, int] = {}
    for ids, host in zip(wanted, checked, strict=True):
        if any(
            lengths.setdefault(letter, length) != length for letter, length in zip(ids.shape, host.shape, strict=True)
        ):
            shapes = ", ".join(f"({', '.join(ids.shape)}{',' * (len(ids.shape) == 1)})" for ids in wanted)
            raise ShapeError(f"{names}: expected {shapes}, got " + ", ".join(str(tuple(x.shape)) for x in checked))
    return checked


def checked_ids(name: str, ids: Any, vocab_size: int, backend: Backend, *, per_row: bool = False) -> HostArray:
    """The checks of token_ids without the copy to the device. per_row: ids are (B,), classes of rows."""
    host = _on_host(name, ids, backend)
    if per_row and (host.ndim != 1 or host.size == 0):
        raise ShapeError(f"{name}: expected (B,), a class for each row, got {tuple(host.shape)}")
    if not per_row and host.ndim != 2:
        raise ShapeError(f"{name}: expected (B, T), a batch of token ids, got {tuple(host.shape)}")
    if host.size == 0:
        raise ShapeError(f"{name}: expected at least one sequence of at least one token, got {tuple(host.shape)}")
    if host.dtype.kind not in "iu":
        raise DTypeError(f"{name}: expected integers (token ids), got {host.dtype}; convert with astype first")
    if host.min() < 0 or host.max() >= vocab_size:
        outside = np.argwhere((host < 0) | (host >= vocab_size))
        place, kind = tuple(outside[0].tolist()), "class" if per_row else "token id"
        raise TokenError(
            f"{name}[{', '.join(map(str, place))}]: expected a {kind} with 0 <= id < {vocab_size}, got {host[place]}"
            f" ({len(outside)} such); is the vocabulary the one the model was made for?"
        )
    return host


def next_tokens(ids: Any, vocab_size: int, backend: Backend) -> tuple[Array, bool]:
    """The newest tokens, ids (B,) or (B, n), as token_ids returns them, (B, n), and whether ids had two axes."""
    host = _on_host("tokens", ids, backend)
    several = host.ndim != 1
    return token_ids("tokens", host if several else host[:, None], vocab_size, backend), several


def _on_host(name: str, ids: Any, backend: Backend) -> HostArray:
    if backend.device.owns(ids):
        return backend.host(ids)
    try:
        return np.asarray(ids)
    except ValueError as error:
        raise ShapeError(f"{name}: expected (B, T), rows of equal length, got rows that differ; pad them") from error
    except Exception as error:
        raise DTypeError(
            f"{name}: expected token ids in a NumPy array or on the model's device, got {type(ids)}"
        ) from error
