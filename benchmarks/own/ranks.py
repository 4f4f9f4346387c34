"""npformer's training step in several processes of MPI, one thread each; and in one, by slots or as usual."""

import statistics

import npformer as npf
from benchmarks.group import take_core, together
from benchmarks.own.model import training_model
from npformer.cli.processes import starting
from npformer.engine.communicator import Request
from npformer.engine.mpi import MpiRank, Place, connect, launched
from npformer.io.seconds import now, since
from npformer.models.presets import PRESETS


def train(size, dropout, kernels, processes, slots, shared=False):
    """A contender of so many processes; shared: each has a part of the moments."""
    options = {"size": size, "dropout": dropout, "kernels": kernels, "slots": slots, "shared": shared}
    start = starting(processes) if processes > 1 else []
    said = {"backend": f"npformer, {kernels}", "threads": f"{processes} of 1"}
    return together(processes, start, "benchmarks.own.ranks:rank", options, said)


def rank(size, dropout, kernels, slots, shared):
    """One of them; see ``group``."""
    place = launched() or Place(0, 1)
    take_core(place.rank)
    ranks = Counting(connect(place)._mpi) if place.size > 1 else None
    backend = npf.get_backend("numpy", dtype="float32", kernels=kernels, threads=1)
    preset = PRESETS[size]
    model = training_model(preset, dropout, backend)
    src, tgt_in, tgt_out = batch = preset.example_batch()
    logits = model(src, tgt_in)
    loss, _ = model.ops.cross_entropy.forward(logits, backend.integers(tgt_out), model.config.pad_id, 0.0)
    step = npf.TrainStep(
        model, npf.Adam(model.arena, lr=1e-4, betas=(0.9, 0.98), eps=1e-9), seed=0, slots=slots, ranks=ranks,
        shard_optimizer=shared,
    )  # fmt: skip
    steps = []  # of each: seconds in all, seconds of its exchanges, bytes sent, messages sent

    def one():
        before, began = told_by(ranks), now()
        value = float(step(*batch))
        steps.append([since(began), *(after - b for after, b in zip(told_by(ranks), before, strict=True))])
        return value

    def figures():
        middle = map(statistics.median, zip(*steps, strict=True))
        names = ("step_seconds", "exchange_seconds", "bytes", "messages")
        return {"parameters": model.arena.size} | dict(zip(names, middle, strict=True))

    return place.rank, {"loss": float(loss)}, one, figures


def told_by(ranks):
    """What a communicator has counted so far."""
    return (0.0, 0, 0) if ranks is None else (ranks.seconds, ranks.bytes, ranks.count)


class Counting(MpiRank):
    """MPI's communicator, which counts what it sends, and the seconds of its exchanges."""

    def __init__(self, mpi):
        super().__init__(mpi)
        self.seconds, self.bytes, self.count = 0.0, 0, 0

    def messages(self, send, receive):
        """As the base class says."""
        self.count += len(send)
        self.bytes += sum(x.nbytes for x in send.values())
        began = now()
        request = super().messages(send, receive)
        self.seconds += since(began)
        return Timed(request, self)


class Timed(Request):
    """A request whose wait is timed."""

    def __init__(self, request, ranks):
        self._request, self._ranks = request, ranks

    def wait(self):
        """As the request waits."""
        began = now()
        self._request.wait()
        self._ranks.seconds += since(began)
