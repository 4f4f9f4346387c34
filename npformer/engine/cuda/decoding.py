"""A step of decoding whose position is in device memory: its kernels, and the past of an attention that uses them."""

from __future__ import annotations

from typing import NamedTuple

from npformer.engine.cuda.attention_arguments import strided, with_neighbours
from npformer.engine.cuda.device_runtime import DeviceRuntime, warps, whole_blocks
from npformer.typing import Array

MOST_THREADS = 256


class Rows(NamedTuple):
    """What a step knows of its B rows, in device memory; ``now`` is described in ``decoding.cu``."""

    gpu: DeviceRuntime
    now: Array  # (4, B) int64
    encodings: Array  # (room, C)
    visible: Array  # (B, room) boolean
    chosen: Array  # (room, B) int64

    def begin(self, pad_id: int) -> Array:
        """The encodings (B, 1, C) of the newest tokens, which are visible from now on unless they are pads."""
        (room, width), rows = self.encodings.shape, self.now.shape[1]
        x = self.gpu.empty((rows, 1, width), self.encodings.dtype)
        self.gpu.launch(
            "decoding.begin", x.dtype, rows, warps(width, MOST_THREADS),
            self.now, self.encodings, x, self.visible, rows, room, width, pad_id,
        )  # fmt: skip
        return x

    def choose(self, logits: Array, eos_id: int, pad_id: int) -> None:
        """The likeliest tokens of logits (B, 1, V) become the newest, one position further."""
        rows, _, width = logits.shape
        self.gpu.launch(
            "decoding.choose", logits.dtype, rows, warps(width, MOST_THREADS),
            self.gpu.contiguous(logits), self.now, self.chosen, rows, width, eos_id, pad_id,
        )  # fmt: skip


class Newest(NamedTuple):
    """The key-value cache (B, H, room, D) of a step: a past that is only written, of which ``seen`` positions are read.

    What is beyond the newest token is hidden by the step's mask, and must be finite: a weight of 0 times NaN is NaN.
    """

    rows: Rows
    keys: Array
    values: Array
    seen: int

    def write(self, start: int, keys: Array, values: Array) -> tuple[Array, Array]:
        """Write keys and values (B, H, 1, D), at the rows' positions whatever start is. Returns (B, H, seen, D)."""
        gpu, now = self.rows.gpu, self.rows.now
        batch, heads, room, width = self.keys.shape
        (k, *of_k, _), (v, *of_v, _) = (strided(with_neighbours(gpu, x)) for x in (keys, values))
        gpu.launch(
            "decoding.write_newest", k.dtype, whole_blocks(k.size), MOST_THREADS,
            k, v, *of_k, *of_v, self.keys, self.values, now, batch, heads, room, width,
        )  # fmt: skip
        return self.keys[:, :, : self.seen, :], self.values[:, :, : self.seen, :]
