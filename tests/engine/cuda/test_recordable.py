"""What can be recorded as a CUDA graph: every pair and layer, and a training step of every kind of model."""

import ctypes
import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from npformer.backend import Pair, get_backend
from npformer.backend.select import cupy_backend
from npformer.check.inputs import place
from npformer.decoding import beam_search, greedy
from npformer.engine.communicator import Request
from npformer.engine.mpi import MpiRank
from npformer.models import DecoderConfig, EncoderConfig, Transformer, TransformerConfig, build_model
from npformer.optim import Adam
from npformer.training import TrainStep
from tests import test_contract as contract
from tests.backend.conftest import upstream_for
from tests.decoding.test_every_search import as_lists
from tests.engine.cuda.test_capture import same
from tests.outputs import parts

CASES = [case for case in contract.CASES if case.group != "model"]
SIZE = {"d_model": 8, "num_heads": 2, "d_ff": 12, "dropout": 0.3, "max_seq_len": 16}
ONE_EACH = {"num_encoder_layers": 1, "num_decoder_layers": 1}


def whole(**options):
    return TransformerConfig(9, 9, **SIZE, **ONE_EACH, **options)


MODELS = {
    **{f"positions {word}": whole(positions=word) for word in ("sinusoidal", "learned", "rotary", "relative", "none")},
    "activation gelu": whole(activation="gelu"),
    "norm batch": whole(norm="batch"),
    "init xavier": whole(init="xavier"),
    "local attention": whole(attention="local", window=2),
    "strided attention": whole(attention="local", stride=3),
    "local and strided attention": whole(attention="local", window=2, stride=3),
    "linear attention": whole(attention="linear"),
    "recomputed": whole(recompute=True, norm_order="pre"),
    "decoder": DecoderConfig(vocab_size=9, num_layers=1, **SIZE),
    "head sequence": EncoderConfig(vocab_size=9, head="sequence", num_classes=4, num_layers=1, **SIZE),
    "head tokens": EncoderConfig(vocab_size=9, head="tokens", num_classes=4, num_layers=1, **SIZE),
    "head masked": EncoderConfig(vocab_size=9, head="masked", num_layers=1, **SIZE),
}


@pytest.fixture
def backend(cupy):
    return cupy_backend("float64")


def on_device(x, backend):
    """x, with the arrays of the host in it on the device."""
    if isinstance(x, np.ndarray) and x.dtype.kind == "f":
        return backend.array(x)
    return place(x, backend.device)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_pair_or_layer_can_be_recorded(case, backend):
    """What is replayed is what was computed, to the bit, though memory is garbage at first."""
    target, driver = case.build(backend), backend.engine.capture(None, None)._driver
    inputs = [on_device(x, backend) for x in case.inputs]
    options = {name: on_device(x, backend) for name, x in case.options.items()}
    y, cache = target.forward(*inputs, **options)
    dy = [on_device(part, backend) for part in parts(upstream_for(hosted(y, backend)))]
    dy = tuple(dy) if isinstance(y, tuple) else dy[0]

    def work():
        y, cache = target.forward(*inputs, **options)
        return [*parts(y), *parts(target.backward(dy, cache))]

    expected = [np.array(backend.host(x)) for x in [*parts(y), *parts(target.backward(dy, cache))]]
    with driver.using(driver.pool()):
        graph, outputs = driver.record(work)
        driver.launch(graph)
    for found, value in zip(outputs, expected, strict=True):
        np.testing.assert_array_equal(backend.host(found), value)


def hosted(y, backend):
    return tuple(map(backend.host, y)) if isinstance(y, tuple) else backend.host(y)


@pytest.mark.parametrize("kind", MODELS)
def test_a_step_of_every_kind_of_model_is_recorded(kind, backend, cupy):
    """To the bit, and the host's step to rounding, with more tokens than CuPy puts side by side without a list.

    A record leaves no array but its outputs. One that an object keeps, made once, would be written when this record is
    launched, and read by others before.
    """
    on_host = build_model(MODELS[kind], backend=get_backend("numpy", "float64", kernels="plain", threads=1), seed=1)
    made = [trained(TrainStep(on_host, Adam(on_host.arena, eps=1e-3), seed=3))]
    for recorded in (True, False):
        model = build_model(MODELS[kind], backend=backend, seed=1)
        step = TrainStep(model, Adam(model.arena, eps=1e-3), seed=3)
        step.runner.compute.refusal = None if recorded else "asked not to"
        made.append(trained(step))
        records = step.runner.compute._kept
        left = {x.memory for shape in records.shapes.values() for x in shape.outputs if x is not None}
        assert records.pool.blocks.used_bytes() == sum(each.chunk.size for each in left)
    for true, x, y in zip(*made, strict=True):
        np.testing.assert_array_equal(x, y)
        np.testing.assert_allclose(x, true, rtol=1e-9, atol=1e-11)
    assert (cupy.machine.records, cupy.machine.launches) == (1, 3)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_step_by_slots_is_recorded_slot_by_slot(accumulate, backend, cupy):
    """The three rows of a batch, in one or two micro-batches, are in three places, each with a record of its own."""
    made = []
    for recorded in (True, False):
        model = build_model(whole(), backend=backend, seed=1)
        step = TrainStep(model, Adam(model.arena), seed=3, slots=4, clip_norm=0.1, accumulate=accumulate)
        (compute,) = step.runner.shards.computes
        compute.refusal = None if recorded else "asked not to"
        made.append(trained(step))
    same(*made)
    assert (cupy.machine.records, cupy.machine.launches) == (3, 11)


class Echo:
    """NCCL beside a rank that has no rows: the part that it is sent to be added, it sends back as the sum."""

    NCCL_UINT8, available = 1, True

    def __init__(self, machine):
        self.machine, self.groups, self.part = machine, 0, b""
        self.get_unique_id = self.groupEnd = self.check_async_error = lambda: None

    def NcclCommunicator(self, *place):  # noqa: N802
        return self

    def groupStart(self):  # noqa: N802
        self.groups += 1

    def send(self, pointer, count, kind, rank, stream):
        def keep():
            self.part = ctypes.string_at(pointer, count)
            ctypes.memset(pointer, 0xFF, count)  # not numbers until it is back

        assert (rank, stream) == (0, self.machine.current.ptr)
        if self.groups % 2:
            self.machine.do(keep)

    def recv(self, pointer, count, kind, rank, stream):
        if self.groups % 2 == 0:
            self.machine.do(lambda: ctypes.memmove(pointer, self.part, count))


class Second(MpiRank):
    """The second of two ranks, beside that one."""

    rank, size, world = 1, 2, SimpleNamespace(bcast=lambda name: name)

    def __init__(self):
        pass

    def messages(self, send, receive):
        for x in receive.values():
            x[...] = 0
        return Request()


def test_one_rank_of_nccl_is_recorded(backend, cupy):
    """A single row is the second rank's: its slot is recorded, and parts go between cards on the same stream."""
    cupy.cuda.nccl = Echo(cupy.machine)
    config, made = dataclasses.replace(whole(), d_model=48, d_ff=64), []  # longer than a block for each rank
    for ranks in (None, Second()):
        model = build_model(config, backend=backend, seed=1)
        step = TrainStep(model, Adam(model.arena), seed=3, slots=4, clip_norm=0.1, ranks=ranks)
        batches = [[ids[:1] for ids in batch] for batch in batches_for(model.config, 4)]
        losses = [float(step(*batch)) for batch in batches]
        made.append([*losses, backend.host(model.arena.values).copy()])
        assert (cupy.machine.records, cupy.machine.launches) == (len(made), 3 * len(made))
    same(*made)
    assert (cupy.cuda.nccl.groups, len(cupy.cuda.nccl.part) > 0) == (2 * 4, True)


def batches_for(config, count, length=12):
    """Batches of three sequences for a model."""
    rng = np.random.default_rng(length)
    shapes = {ids: (3, length)[: len(ids.shape)] for ids in config.batch}
    return [[rng.integers(1, min(ids.below, 9), shape) for ids, shape in shapes.items()] for _ in range(count)]


def trained(step):
    """Losses of four batches, and the parameters."""
    losses = [float(step(*batch)) for batch in batches_for(step.model.config, 4)]
    return [*losses, step.model.backend.host(step.model.arena.values).copy()]


class OfMyOwn(Transformer):
    """A model that is not declared static: what it does may depend on more than shapes."""


def with_own_linear(backend):
    """The backend with an operation replaced; a record would repeat the one before it."""
    pair = backend.ops.linear
    return dataclasses.replace(backend, ops=dataclasses.replace(backend.ops, linear=Pair(*pair)))


def eager(backend):
    return dataclasses.replace(backend, engine=backend.engine.eager())


#: What is not recorded: why -> (the model's class, its backend).
UNRECORDED = {
    "an engine that was asked not to": (Transformer, lambda: eager(cupy_backend("float64"))),
    "plain kernels: CuPy refuses its products": (Transformer, lambda: cupy_backend("float64", "plain")),
    "a class that does not say that it is static": (OfMyOwn, lambda: cupy_backend("float64")),
    "an operation was replaced": (Transformer, lambda: with_own_linear(cupy_backend("float64"))),
}


@pytest.mark.parametrize("why", UNRECORDED)
def test_what_is_not_recorded_is_computed_all_the_same(why, cupy):
    """Texts and a training."""
    kind, other = UNRECORDED[why]
    made = []
    for build, on in ((kind, other()), (Transformer, get_backend("numpy", "float64"))):
        model = build(whole(), backend=on, seed=1)
        texts = [as_lists(search(model, np.array([[3, 4, 5], [6, 7, 0]]), 12)) for search in (greedy, beam_search)]
        made.append((texts, trained(TrainStep(model, Adam(model.arena, eps=1e-4), seed=3))))
    assert cupy.machine.launches == 0
    (texts, numbers), (expected, true) = made
    assert texts == expected
    for x, y in zip(numbers, true, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-11)


#: What decodes as it is written, with one launch for each kernel: why -> its model. The others are recorded.
UNRECORDED_DECODING = {
    "RoPE turns keys by a position that is a number of the host": MODELS["positions rotary"],
    "T5's bias is taken for a position that is a number of the host": MODELS["positions relative"],
    "a window begins at a position that is a number of the host": MODELS["local attention"],
    "a stride counts from a position that is a number of the host": MODELS["strided attention"],
    "a window and a stride": MODELS["local and strided attention"],
    "linear attention keeps sums, in new arrays": MODELS["linear attention"],
}


@pytest.mark.parametrize("kind", [kind for kind in MODELS if not isinstance(MODELS[kind], EncoderConfig)])
def test_a_token_of_every_kind_of_model_is_a_launch_or_is_listed(kind, backend, cupy):
    src = np.random.default_rng(0).integers(1, 9, (3, 5))
    here, there = (build_model(MODELS[kind], backend=on, seed=1) for on in (get_backend("numpy", "float64"), backend))
    np.testing.assert_array_equal(greedy(there, src, 16, eos_id=None), greedy(here, src, 16, eos_id=None))
    not_the_first = 16 - 1 if kind != "decoder" else 16 - 5 - 2  # the prompt's token is none of a graph, either
    assert cupy.machine.launches == (0 if MODELS[kind] in UNRECORDED_DECODING.values() else not_the_first)


@pytest.mark.parametrize("precision", ["float32", "tf32"])
def test_a_plain_pairs_products_have_the_precision_of_the_backend(precision, cupy):
    backend, rng = cupy_backend("float32", precision=precision), np.random.default_rng(0)
    x, weight, bias = (rng.normal(size=shape).astype("float32") for shape in ((3, 12, 8), (3, 8, 5), (5,)))
    y, _ = backend.ops.conv1d.forward(*map(backend.array, (x, weight, bias)))
    true, _ = get_backend("numpy", "float64").ops.conv1d.forward(
        *(each.astype("float64") for each in (x, weight, bias))
    )
    off = np.max(np.abs(backend.host(y) - true)) / np.max(np.abs(true))
    assert (off > 1e-5) == (precision == "tf32")
    assert off < 1e-2
