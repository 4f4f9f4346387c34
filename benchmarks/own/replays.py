"""The GPU's memory during many training steps with changing shapes.

Two sets of shapes take turns. One set fits into the limit on kept graphs, so graphs are replayed within a turn. Both
sets together exceed it, so each turn evicts graphs and captures others.
"""

import numpy as np

import npformer as npf
from benchmarks.own.model import about, backend
from benchmarks.own.on_gpu import used_memory
from benchmarks.tasks import Contender
from npformer.models.presets import Preset

SIZE = Preset(vocab_size=16, d_model=32, num_heads=2, num_layers=1, d_ff=64, length=24, batch=16)
SETS = ((5, 6, 7, 9, 11, 13), (8, 10, 12, 16, 20, 24))  # lengths T
TURNS = 10


def replays(device, precision, kernels, steps=10_000):
    """Task "replays": what ``watch`` finds."""
    chosen = backend(device, kernels, precision)
    model = npf.Transformer(SIZE.config(0.1), backend=chosen, seed=0)
    update = npf.TrainStep(model, npf.Adam(model.arena, lr=1e-4), seed=0, clip_norm=1.0)

    def turn(count, lengths):
        loss = chosen.zeros(())
        for i in range(count):
            loss = update(*batch(lengths[i % len(lengths)]))
        return float(loss)

    return Contender(about(chosen), {"replays": lambda: lambda: watch(turn, steps, used_memory)})


def watch(turn, steps, used):
    """Make so many steps in turns: {"steps", "used", "growth", "loss"}; used is the bytes in use after each turn.

    growth is the greatest use after a turn of the second half minus the greatest after a turn of the first half.
    """
    each, found, loss = -(-steps // TURNS), [], 0.0
    for i in range(TURNS):
        loss = turn(each, SETS[i % 2])
        found.append(used())
    growth = max(found[TURNS // 2 :]) - max(found[: TURNS // 2])
    return {"steps": each * TURNS, "used": found, "growth": growth, "loss": loss}


def batch(length):
    """Random tokens of that length."""
    rng = np.random.default_rng(length)
    src, tgt_in, tgt_out = (rng.integers(1, SIZE.vocab_size, (SIZE.batch, length)) for _ in range(3))
    return src, tgt_in, tgt_out
