"""The memory that a training step needs at least: a run that cannot fit is refused before anything is made of it.

When a step's forward ends, these are in memory together, since the backward will read them:

    4·P numbers            parameters, gradients, and Adam's two moments (from the second step on)
    n·L·(F + 5C) numbers   of n tokens and L layers: the inputs of attention and feed-forward, q, k, v, active units;
                           with recompute n·L·C, and what one layer keeps or the logits
    n·V numbers            the logits; not counted where a whole row has one class
    8·B·T bytes            the ids of the batch

n counts the largest shard alone: micro-batches and slots follow each other, and threads may. Attention's weights,
cross-attention and the loss are left out, and what slots add up. T is that of a batch, of SAMPLE rows where a task
makes more.
"""

from __future__ import annotations

import math
import os
import re
from pathlib import Path

from npformer.backend import Backend
from npformer.data import ExampleTask, Task
from npformer.errors import ConfigError
from npformer.models.shapes import Limit, model_of_shapes
from npformer.run.options import Options

SAMPLE = 4096


def expect_memory(options: Options, task: Task, backend: Backend, done: int = 0) -> None:
    """Raise ConfigError, with the figures, if the step after those done cannot fit into the device's memory."""
    room, rows = getattr(backend.device, "memory", None) or host_memory(), options.training.batch_size
    is_listed = isinstance(task, ExampleTask)
    ids = task.batch(done + 1, rows if is_listed else min(rows, SAMPLE))
    rows, width = len(ids[0]) if is_listed else rows, min(array.shape[-1] for array in ids if array.ndim == 2)
    model, batch = least_bytes(options, rows, width, max(backend.threads, options.training.slots))
    if model + batch > room and done < options.training.steps:
        need, has, held, rest = (f"{count / 1e9:,.1f} GB" for count in (model + batch, room, model, batch))
        most = f"at most {int(rows * (room - model) / batch):,} can fit; " if room > model else ""
        raise ConfigError(
            f"training.batch_size: expected a step that fits into the memory, {has}, got one that needs at least {need}"
            f": {held} for parameters, gradients and moments, {rest} for {rows:,} sequences of {width} tokens; {most}"
            "lower it, raise accumulate, or make the model smaller"
        )


def least_bytes(options: Options, rows: int, width: int, threads: int) -> tuple[int, int]:
    """The bytes of model and optimiser, and those of a batch of so many rows and tokens, as derived above."""
    config, training, limit = options.model, options.training, Limit(numbers=2**80)
    size = 8 if options.run.dtype == "float64" else 4
    model_of_shapes(config, limit)
    layers = sum(getattr(config, name, 0) for name in ("num_layers", "num_encoder_layers", "num_decoder_layers"))
    layer, targets = config.d_ff + 5 * config.d_model, config.batch[-1]
    logits = targets.below if targets.shape == "BT" else 0
    kept = layers * config.d_model + max(layer, logits) if config.recompute else layers * layer + logits
    tokens = -(-rows // (training.accumulate * threads)) * width
    return (4 if training.steps > 1 else 1) * size * int(2**80 - limit.numbers), size * tokens * kept + 8 * rows * width


def host_memory() -> float:
    """Bytes of memory and swap, or what control groups allow of them; infinity where the system does not tell."""
    told = dict(re.findall(r"(\w+): +(\d+) kB", _text(Path("/proc/meminfo"))))
    group = Path("/sys/fs/cgroup", _text(Path("/proc/self/cgroup")).rpartition("0::/")[2].strip())
    files = [folder / "memory.max" for folder in (group, *group.parents)]
    texts = map(_text, [*files, Path("/sys/fs/cgroup/memory/memory.limit_in_bytes")])
    limits = [int(text) for text in texts if text.strip().isdecimal()]
    return min([1024 * int(told.get("MemTotal", 0)) or math.inf, *limits]) + 1024 * int(told.get("SwapTotal", 0))


def _text(file: Path) -> str:
    return file.read_text() if os.access(file, os.R_OK) else ""
