"""A checkpoint is one folder with everything that a run needs to resume, and with check sums that prove it complete.

    step-00000500/
        arrays.safetensors   the arrays
        state.json           format, step, score, state, and the check sums of both files

The folder appears by one rename after it was written, made durable and read back, so a kill or a
full disk never costs an earlier checkpoint. A SHA-256 covers every byte of both files. The
state is plain JSON as `atomic_files.seal` takes it: nan and inf are preserved, tuples are read back as lists.

Saving a step again replaces it. The new folder is committed as `step-00000500.new`, which readers
prefer; only then is the old one removed and the new one renamed. A complete checkpoint exists at any time.
One process may write to a folder at a time (see `RunDirectory.lock`).
"""

from __future__ import annotations

import hashlib
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError

from npformer.errors import CheckpointError
from npformer.io.atomic_files import (
    commit_folder,
    describe,
    disk_is_full,
    make_folder,
    remove_folder,
    remove_leftovers,
    seal,
    sync_folder,
    unseal,
)
from npformer.typing import HostArrays, Tensors

FORMAT = 1
ARRAYS, STATE = "arrays.safetensors", "state.json"

_NO_OTHER = "There is no other sound checkpoint in the same folder: restore this one from a copy, or start a new run"
_NAME = re.compile(r"step-(\d{8,})(\.new)?", re.ASCII)
#: The entries of state.json, and of its entry "arrays", with their types, as `_encode` writes them.
_STATE_KINDS = {"step": (int,), "score": (int, float, type(None)), "state": (dict,), "arrays": (dict,)}
_ARRAYS_KINDS = {"bytes": (int,), "sha256": (str,)}


@dataclass(frozen=True)
class Checkpoint:
    """The content of a checkpoint: new, writable arrays, and a state of plain Python values."""

    step: int
    arrays: HostArrays
    state: dict[str, Any]
    score: float | None
    path: Path


def save_checkpoint(folder: Path, step: int, arrays: Tensors, state: dict[str, Any], score: float | None) -> Path:
    """Save arrays and state under folder (made if missing) and return the checkpoint's path.

    Arrays of any shape, memory order and byte order. A higher score is better. A step that was saved
    before is replaced. Raises CheckpointError if it cannot be written (earlier checkpoints are then
    intact) or state is not plain.
    """
    path = folder / f"step-{step:08d}"
    # in C order and native byte order: safetensors 0.8 writes others wrongly and silently
    stored = {name: np.asarray(x, dtype=x.dtype.newbyteorder("="), order="C") for name, x in arrays.items()}
    files = _encode(step, stored, state, None if score is None else float(score))
    previous = latest_checkpoint(folder)
    try:
        make_folder(folder)
        remove_leftovers(folder)
        _finish_replacing(folder)
        taken = os.path.lexists(path)
        commit_folder(path.with_suffix(".new") if taken else path, files, partial(_verify, stored))
        _finish_replacing(folder)
    except OSError as error:
        raise _save_failed(error, path, sum(map(len, files.values())), previous) from error
    return path


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint. Raises CheckpointError if any byte is missing or changed, and names a sound one."""
    try:
        return _read(path)
    except CheckpointError as error:
        sound = nearest_sound(path)
        way_out = f"Load {sound.name} in the same folder instead, which is sound" if sound else _NO_OTHER
        raise CheckpointError(f"{error}. {way_out}") from error


def list_checkpoints(folder: Path) -> list[Path]:
    """The complete checkpoints in step order, unopened; an absent folder has none.

    Raises CheckpointError if the folder cannot be read.
    """
    by_step = {}
    try:
        for path in sorted(folder.iterdir()):  # "….new" sorts after the checkpoint that it replaces, and is preferred
            if _NAME.fullmatch(path.name) and (path / ARRAYS).is_file() and (path / STATE).is_file():
                by_step[step_in(path)] = path
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise CheckpointError(f"{folder}: expected to list it, got: {describe(error)}: allow it") from error
    return [by_step[step] for step in sorted(by_step)]


def latest_checkpoint(folder: Path) -> Path | None:
    """The checkpoint of the last step, or None."""
    return next(reversed(list_checkpoints(folder)), None)


def best_checkpoint(folder: Path) -> Path | None:
    """The checkpoint of the highest score (the later of equals), or None if none has a readable score."""
    best, highest = None, -math.inf
    for path in list_checkpoints(folder):
        state = _readable_state(path)
        if state and state["score"] is not None and state["score"] >= highest:  # nan is never best
            best, highest = path, state["score"]
    return best


def prune(folder: Path, keep_last: int) -> None:
    """Remove all checkpoints but the last keep_last, the best, and those whose state cannot be read.

    An unreadable checkpoint is kept, since it may be the best one and its owner may repair it.
    Raises CheckpointError if one cannot be removed.
    """
    try:
        _finish_replacing(folder)
        best = best_checkpoint(folder)
        for path in list_checkpoints(folder)[:-keep_last]:
            if path != best and _readable_state(path):
                remove_folder(path)
    except OSError as error:
        raise CheckpointError(
            f"{folder}: expected to remove an old checkpoint, got: {describe(error)}; "
            "allow writing there, or keep more checkpoints"
        ) from error


def _encode(step: int, arrays: Tensors, state: dict[str, Any], score: float | None) -> dict[str, bytes]:
    """The two files of a checkpoint, by name."""
    data = safetensors.numpy.save(dict(arrays))
    check = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    document = {"format": FORMAT, "step": step, "score": score, "arrays": check, "state": state}
    try:
        return {ARRAYS: data, STATE: seal(document)}
    except ValueError as error:
        raise CheckpointError(f"checkpoint{error}: convert it, or save it among the arrays") from error


def _read(path: Path) -> Checkpoint:
    document = _read_state(path)
    file, check = path / ARRAYS, document["arrays"]
    data = _read_file(file)
    if len(data) != check["bytes"]:
        raise CheckpointError(f"{file}: truncated: expected {check['bytes']} bytes, found {len(data)}")
    digest = hashlib.sha256(data).hexdigest()
    if digest != check["sha256"]:
        raise CheckpointError(f"{file}: corrupt: expected SHA-256 {check['sha256']}, found {digest}")
    try:
        # a copy, since arrays from safetensors may be read-only
        arrays = {name: array.copy() for name, array in safetensors.numpy.load(data).items()}
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise CheckpointError(f"{file}: expected safetensors, found something else ({error})") from error
    return Checkpoint(document["step"], arrays, document["state"], document["score"], path)


def _read_state(path: Path) -> dict[str, Any]:
    """The content of state.json. Raises CheckpointError unless it is exactly what was written."""
    file = path / STATE
    data = _read_file(file)
    try:
        document = unseal(data)
    except ValueError:
        raise CheckpointError(
            f"{file}: truncated or corrupt: expected its check sum to hold, and it does not"
        ) from None
    if document.get("format") != FORMAT:
        raise CheckpointError(
            f"{file}: expected checkpoint format {FORMAT}, found {document.get('format')!r:.80}: "
            "use the version of npformer that wrote it"
        )
    if not (_has(document, _STATE_KINDS) and _has(document["arrays"], _ARRAYS_KINDS)):  # not written by npformer
        raise CheckpointError(f"{file}: expected step, score, state and arrays of a checkpoint, found others")
    if _NAME.fullmatch(path.name) and step_in(path) != document["step"]:
        raise CheckpointError(f"{path}: expected step {step_in(path)} by its name, found {document['step']}")
    return document


def _has(entries: Mapping[str, Any], kinds: Mapping[str, tuple[type, ...]]) -> bool:
    return all(type(entries.get(name, ...)) in kind for name, kind in kinds.items())


def _readable_state(path: Path) -> dict[str, Any] | None:
    try:
        return _read_state(path)
    except CheckpointError:
        return None


def _read_file(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        missing = file if file.parent.is_dir() else file.parent
        raise CheckpointError(f"{missing}: expected a checkpoint's {missing.name}, found nothing") from None
    except OSError as error:
        raise CheckpointError(f"{file}: expected to read it, got: {describe(error)}") from error


def _verify(expected: Tensors, written: Path) -> None:
    """Read the checkpoint back as a resuming run would, and compare it bit by bit."""
    arrays = _read(written).arrays
    for name, array in expected.items():
        back = arrays.get(name)
        if back is None or (back.dtype, back.shape, back.tobytes()) != (array.dtype, array.shape, array.tobytes()):
            raise CheckpointError(
                f"array {name!r}: expected to read back what was written, got other bytes; nothing was saved: "
                "check the disk, or give the array another name"
            )


def _finish_replacing(folder: Path) -> None:
    """Replace each checkpoint that has a `….new` by it. Raises OSError."""
    for path in list_checkpoints(folder):
        if path.suffix == ".new":
            if os.path.lexists(path.with_suffix("")):
                remove_folder(path.with_suffix(""))
            os.rename(path, path.with_suffix(""))
            sync_folder(folder)


def _save_failed(error: OSError, path: Path, needed: int, previous: Path | None) -> CheckpointError:
    """The message of a failed save, after its files were removed."""
    name = previous.name.removesuffix(".new") if previous else None
    kept = f"The previous checkpoint {name} is intact" if name else "There is no earlier checkpoint"
    remedy = "Free some space" if disk_is_full(error) else "Remove the cause"
    return CheckpointError(
        f"{path}: the checkpoint was not saved: {describe(error)} (it needs {needed} bytes). {kept}. "
        f"{remedy}, then resume the run"
    )


def nearest_sound(path: Path) -> Path | None:
    """The way out of an unreadable checkpoint: the nearest sound one before it, else one after it."""
    step = step_in(path) if _NAME.fullmatch(path.name) else math.inf
    others = [other for other in list_checkpoints(path.parent) if other != path]
    for other in sorted(others, key=lambda other: (step_in(other) > step, -step_in(other))):
        try:
            _read(other)
        except CheckpointError:
            continue
        return other
    return None


def step_in(path: Path) -> int:
    """The step that a checkpoint's name says."""
    return int(path.name.removesuffix(".new").removeprefix("step-"))
