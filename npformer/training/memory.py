"""The memory that a training step needs at least: a run that cannot fit is refused before anything is made of it.

When a step's forward ends, these are in memory together, since the backward will read them:

    4·P numbers              the parameters, their gradients, and Adam's two moments (from the second step on)
    n·L·(F + 5C) numbers     for each of n tokens and L layers: the input of attention and its q, k, v, 4C; the input of
                             the feed-forward and its active units, C + F. dW = xᵀ dy needs the input of every product.
    n·V numbers              the logits of all tokens; of none where a whole row has one class
    8·B·T bytes              the ids of the batch

With recompute, L·C inputs of layers, and what one layer keeps or the logits. n counts the largest shard alone, since
micro-batches follow each other and threads may. Attention's weights and cross-attention's arrays are left out; so is
what the task does not know: of the widths of its batches it tells the least (``least_batch``).
"""

from __future__ import annotations

import math
import re
from pathlib import Path

from npformer.backend import Backend
from npformer.data import Task
from npformer.errors import ConfigError
from npformer.models.shapes import Limit, model_of_shapes
from npformer.training.options import Options


def expect_memory(options: Options, task: Task, backend: Backend, done: int = 0) -> None:
    """Raise ConfigError, with the figures, if the step after those done cannot fit into the device's memory."""
    room = getattr(backend.device, "memory", None) or host_memory()
    rows, width = task.least_batch(done + 1, options.training.batch_size)
    model, batch = least_bytes(options, rows, width, backend.threads)
    if model + batch > room and done < options.training.steps:
        most = int(rows * (room - model) / batch)
        name = "training.batch_size" if most > 0 else "model"
        fits = f"at most {most:,} sequences can fit; lower it, or raise accumulate" if most > 0 else "make it smaller"
        raise ConfigError(
            f"{name}: expected a step that fits into the memory, {_gb(room)}, got one that needs at least "
            f"{_gb(model + batch)}: {_gb(model)} for parameters, gradients and moments, and {_gb(batch)} for {rows:,} "
            f"sequences of {width} tokens; {fits}"
        )


def least_bytes(options: Options, rows: int, width: int, threads: int) -> tuple[int, int]:
    """The bytes of model and optimiser, and those of a batch of so many rows and tokens, as derived above."""
    config, training = options.model, options.training
    size = 8 if options.run.dtype == "float64" else 4
    limit = Limit(numbers=2**80)
    model_of_shapes(config, limit)
    layers = sum(getattr(config, name, 0) for name in ("num_layers", "num_encoder_layers", "num_decoder_layers"))
    layer, targets = config.d_ff + 5 * config.d_model, config.batch[-1]
    logits = targets.below if targets.shape == "BT" else 0
    kept = layers * config.d_model + max(layer, logits) if config.recompute else layers * layer + logits
    tokens = -(-rows // (training.accumulate * threads)) * width
    numbers = (2 if options.run.precision == "bfloat16" else size) * tokens * kept
    return (4 if training.steps > 1 else 1) * size * int(2**80 - limit.numbers), numbers + 8 * rows * width


def host_memory() -> float:
    """The bytes of memory and swap of this machine, or those that its control groups allow; infinity if not told."""
    told = dict(re.findall(r"(\w+):\s+(\d+) kB", _text("/proc/meminfo")))
    limits = [1024 * int(told["MemTotal"])] if "MemTotal" in told else []
    for controller, group in re.findall(r"^\d+:(|.*\bmemory\b.*):(/.*)$", _text("/proc/self/cgroup"), re.MULTILINE):
        root, name = ("/memory", "memory.limit_in_bytes") if controller else ("", "memory.max")
        for folder in (Path(group), *Path(group).parents):
            text = _text(f"/sys/fs/cgroup{root}{folder}/{name}").strip()
            limits += [int(text)] if text.isdecimal() else []
    return min(limits, default=math.inf) + 1024 * int(told.get("SwapTotal", 0))


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def _gb(count: float) -> str:
    return f"{count / 1e9:,.1f} GB"
