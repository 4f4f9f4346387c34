"""What every training step is given and does, however it is made: the gradient of some rows, and the update."""

from __future__ import annotations

from typing import NamedTuple

from npformer.backend import Backend, Segment
from npformer.layers import RandomKey
from npformer.layers.batch_norm import Statistics, statistics_in
from npformer.models import Model
from npformer.optim import Adam, Rates, clip_by_global_norm
from npformer.training.held_interrupt import HeldInterrupt
from npformer.typing import Array


class StepInputs(NamedTuple):
    """Everything that changes from step to step: host numbers, or the same numbers in device memory."""

    number: int | Array  # of the step, from 0: it determines dropout's masks
    rates: Rates | Array  # of Adam
    shares: list[list[tuple[slice, float | Array]]]  # of each micro-batch: the rows of each shard, and its n_i/N
    inputs: tuple[Array, ...]  # of the model, (B, T) each
    targets: Array  # (B, T), or (B,): one for each row


class Shard(NamedTuple):
    """Rows of a micro-batch that go through forward, loss and backward as one."""

    number: int | Array  # of the step
    micro: int | Array  # of the micro-batch
    share: float | Array  # n_i/N, the weight of this shard's loss in the batch's loss
    rows: slice  # of the micro-batch
    batch: tuple[Array, ...]  # these rows of the model's inputs and targets


class Settings(NamedTuple):
    """What a step does, independent of its batch: all that a record of it depends on."""

    seed: int
    label_smoothing: float
    clip_norm: float | None
    optimizer: Adam
    betas: tuple[float, float]
    eps: float
    weight_decay: float
    m: Array  # the optimiser's moments
    v: Array
    segments: tuple[Segment, ...]  # of the arena, with the settings of its parts
    version: int  # of the model


def shards_of(inputs: StepInputs, backend: Backend | None) -> list[list[Shard]]:
    """The shards of each micro-batch, their batches on the backend's device; None: where they are."""
    arrays = (*inputs.inputs, inputs.targets)
    shards, batch = [], list(arrays if backend is None else map(backend.on_device, arrays))
    for micro, shares in enumerate(inputs.shares):
        first = shares[0][0].start
        shards.append([
            Shard(inputs.number, micro, share, slice(rows.start - first, rows.stop - first),
                  tuple(x[rows, ...] for x in batch))
            for rows, share in shares
        ])  # fmt: skip
    return shards


def backpropagate(model: Model, settings: Settings, shard: Shard, seen: list[Statistics] | None) -> Array:
    """Forward, loss, backward: adds shard.share × the gradient of its rows' mean loss to the model's.

    Returns that loss (). seen, if given, gets what every BatchNorm saw.
    """
    *inputs, targets = shard.batch
    cross_entropy = model.ops.cross_entropy
    key = RandomKey(settings.seed, shard.number, shard.micro, first_row=shard.rows.start)
    logits, cache = model.forward(*inputs, key=key, checked=True)
    loss, loss_cache = cross_entropy.forward(logits, targets, model.config.pad_id, settings.label_smoothing)
    if seen is not None:
        seen += statistics_in(cache)
    model.backward(cross_entropy.backward(shard.share, loss_cache), cache)
    return loss


def update(settings: Settings, rates: Rates | Array, seen: list[Statistics], interrupt: HeldInterrupt) -> Array | None:
    """Clip the gradients and update the parameters; BatchNorms remember what they saw. Never left half done.

    Returns the norm () before clipping, if it was taken.
    """
    optimizer, clip_norm, norm = settings.optimizer, settings.clip_norm, None
    with interrupt.firmly():
        if isinstance(rates, Rates):
            if clip_norm is not None:
                norm = clip_by_global_norm(optimizer.arena, clip_norm)
            optimizer.step(rates.lr)
        else:  # numbers on the device, for a CUDA graph
            norm = optimizer.step_on_device(rates, clip_norm)
        for statistics in seen:
            statistics.norm.remember(statistics)
    return norm
