"""What every training step does, however it is made: the gradient of some rows of a batch, and the update."""

from __future__ import annotations

from npformer.layers import RandomKey
from npformer.layers.batch_norm import Statistics, statistics_in
from npformer.models import Model
from npformer.optim import Rates, clip_by_global_norm
from npformer.optim.step_inputs import Settings, Shard
from npformer.training.held_interrupt import HeldInterrupt
from npformer.typing import Array


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
