"""npformer's training step, alone or of several ranks, and the matrix products of a step alone.

On a GPU several steps are queued before the host waits, and their losses are read together; the batch comes
from the host each time, as in training.
"""

import statistics
import time
from dataclasses import replace

import numpy as np

import npformer as npf
from benchmarks.harness import PREPARED, TOGETHER, Contender
from benchmarks.own.gpu import launched_kernels, memory_watched
from benchmarks.own.model import about, backend, take_core, training_model
from benchmarks.products import linears
from npformer.engine.communicator import Request
from npformer.engine.mpi import MpiRank, connect, launched
from npformer.functional.arrays import namespace
from npformer.io.seconds import now, since
from npformer.models.presets import PRESETS, Preset

MINUTE = Preset(vocab_size=16, d_model=16, num_heads=2, num_layers=1, d_ff=16, length=4, batch=8)
FLOP_PER_TURN = 4e8  # short products are repeated, so that the clock's cost is negligible


def train(size, dropout, device, kernels, precision="float32", launch="one", slots=None, shared=False, alone=False):
    """A contender with the npformer kernels of this name ("numba", "numpy", "plain"; "cuda" on a GPU).

    size is a preset's name. launch, on a GPU: "one" step per graph launch, or "none" for eager operations. alone: it
    has one thread and one core, and is perhaps a rank of several of MPI; slots and shared are options of TrainStep.
    """
    place = launched() if alone else None
    if alone:
        take_core(place.rank if place else 0)
    chosen = backend(device, kernels, precision, threads=1 if alone else None)
    if launch == "none":
        chosen = replace(chosen, engine=chosen.engine.eager())
    ranks = Counting(connect(place)._mpi) if place else None
    options = {"slots": slots, "ranks": ranks, "shard_optimizer": shared} if alone else {}
    if not alone:
        prepared(MINUTE, dropout, chosen, {})[0]()  # compiles kernels before the clock runs
    held = memory_watched(chosen)
    task, loss, update = prepared(PRESETS[size], dropout, chosen, options)
    facts = {"loss": loss, "rank": place.rank if place else 0}
    if device == "cupy":
        start = time.perf_counter()
        for _ in range(PREPARED):
            task()  # captures
        facts["ready_seconds"] = time.perf_counter() - start

    def on_device():
        told = {"exchanges": [ranks.middle()]} if ranks else {}
        return held() | told | (launched_kernels(update) if device == "cupy" else {})

    step = ranks.watched(task) if ranks else task
    tasks = {"step": lambda: step, "products": products(linears(PRESETS[size]), chosen)}
    return Contender(about(chosen), tasks, facts, chosen.device.synchronize, TOGETHER[device], on_device)


def prepared(preset, dropout, chosen, options):
    """(a task that makes steps and returns their losses; the first loss, without dropout; the training step)."""
    model = training_model(preset, dropout, chosen)
    batch = src, tgt_in, tgt_out = preset.example_batch()
    loss, _ = model.ops.cross_entropy.forward(model(src, tgt_in), chosen.integers(tgt_out), model.config.pad_id, 0.0)
    update = npf.TrainStep(model, npf.Adam(model.arena, lr=1e-4, betas=(0.9, 0.98), eps=1e-9), seed=0, **options)
    together = TOGETHER[chosen.name]

    def several():
        losses = [update(*batch) for _ in range(together)]
        return chosen.host(namespace(losses[0]).stack(losses)).tolist()

    return several if together > 1 else lambda: float(update(*batch)), float(loss), update


class Counting(MpiRank):
    """MPI's communicator, which counts what it sends, and the seconds of its exchanges."""

    def __init__(self, mpi):
        super().__init__(mpi)
        self._told, self._steps = np.zeros(3), []  # seconds of exchanges, bytes sent, messages sent; of each step

    def messages(self, send, receive):
        """As the base class says."""
        began = now()
        request = super().messages(send, receive)
        self._told += (since(began), sum(x.nbytes for x in send.values()), len(send))
        return Timed(request, self._told)

    def watched(self, step):
        """The step, after which is noted what it has exchanged."""

        def one():
            self._told[:] = 0
            value = step()
            self._steps.append(self._told.tolist())
            return value

        return one

    def middle(self):
        """What a step exchanges, by medians."""
        names = ("exchange_seconds", "bytes", "messages")
        return dict(zip(names, map(statistics.median, zip(*self._steps, strict=True)), strict=True))


class Timed(Request):
    """A request whose wait is timed."""

    def __init__(self, request, told):
        self._request, self._told = request, told

    def wait(self):
        """As the request waits."""
        began = now()
        self._request.wait()
        self._told[0] += since(began)


def products(shapes, chosen):
    """The three products of each linear map (y = x W, dx = dy Wᵀ, dW = xᵀ dy) alone, in the shapes of a step.

    By NumPy, and by the kernels' linear map, on all cores. The task's value is the seconds of each in the faster way.
    """
    rng, bias = np.random.default_rng(0), chosen.zeros((max(max(each.c_in, each.c_out) for each in shapes),))
    ways = np.matmul, lambda a, b: chosen.ops.linear.forward(a, b, bias[: b.shape[1]])

    def make():
        work = []
        for each in shapes:
            sizes = (each.rows, each.c_in), (each.c_in, each.c_out), (each.rows, each.c_out)
            x, weight, dy = (rng.standard_normal(size, dtype=np.float32) for size in sizes)
            work += [
                (a, b, max(1, round(FLOP_PER_TURN / each.flop))) for a, b in ((x, weight), (dy, weight.T), (x.T, dy))
            ]
        return lambda: [min(seconds(way, *one) for way in ways) for one in work]

    return make


def seconds(multiply, a, b, repeats):
    """Seconds of one product."""
    began = now()
    for _ in range(repeats):
        multiply(a, b)
    return since(began) / repeats
