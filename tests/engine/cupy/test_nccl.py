"""What the communicator of NCCL asks of it, with a stand-in for CuPy's names that carries bytes between threads."""

import ctypes
import platform
import sys
import threading
from collections import defaultdict, deque
from types import SimpleNamespace

import numpy as np
import pytest

from npformer.backend.cupy import CupyDevice
from npformer.engine.cupy.nccl import NcclRank
from npformer.errors import DeviceError, RankLostError
from tests.engine.thread_ranks import in_threads

STREAM = 77


class OnCard(np.ndarray):
    """An array whose address is found where CuPy has it."""

    @property
    def data(self):
        return SimpleNamespace(ptr=self.ctypes.data)


def on_card(values, dtype="float32"):
    return np.array(values, dtype).view(OnCard)


class Wire:
    """NCCL between the threads of this process."""

    NCCL_UINT8, available = 1, True

    def __init__(self):
        self.sent, self.names = defaultdict(deque), []
        self.pending = defaultdict(list)  # by thread: what it is to receive
        self.grouped = defaultdict(int)
        self.problem = None

    def get_unique_id(self):
        return b"name"

    def groupStart(self):  # noqa: N802
        self.grouped[threading.get_ident()] += 1

    def groupEnd(self):  # noqa: N802
        self.grouped[threading.get_ident()] -= 1

    def NcclCommunicator(self, size, name, rank):  # noqa: N802
        self.names.append((size, name, rank))
        wire, mine = self, threading.get_ident()

        class Connection:
            def send(self, pointer, count, kind, to, stream):
                assert (kind, stream, wire.grouped[mine]) == (wire.NCCL_UINT8, STREAM, 1)
                wire.sent[rank, to].append(ctypes.string_at(pointer, count))

            def recv(self, pointer, count, kind, source, stream):
                assert (kind, stream, wire.grouped[mine]) == (wire.NCCL_UINT8, STREAM, 1)
                wire.pending[mine].append((pointer, count, source))

            def check_async_error(self):
                if wire.problem:
                    raise RuntimeError(wire.problem)
                while wire.pending[mine] and wire.sent[wire.pending[mine][0][2], rank]:
                    pointer, count, source = wire.pending[mine].pop(0)
                    arrived = wire.sent[source, rank].popleft()
                    assert len(arrived) == count
                    ctypes.memmove(pointer, arrived, count)

        return Connection()


@pytest.fixture
def wire(monkeypatch):
    """CuPy with such an NCCL."""
    made = Wire()

    class Event:
        def __init__(self, disable_timing):
            assert disable_timing

        def record(self):
            pass

        @property
        def done(self):
            return not made.pending[threading.get_ident()]

    cuda = SimpleNamespace(nccl=made, Event=Event, get_current_stream=lambda: SimpleNamespace(ptr=STREAM))
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda))
    monkeypatch.setitem(sys.modules, "cupy.cuda", cuda)
    return made


def on_cards(ranks):
    """The communicator of cards of one rank in a thread."""
    if not hasattr(ranks, "world"):
        ranks.world = SimpleNamespace(bcast=lambda name: name or b"name")
    return NcclRank(ranks)


def test_what_arrives_where(wire):
    lengths = [3, 0, 1, 2]
    size = len(lengths)

    def work(ranks):
        cards = on_cards(ranks)
        receive = [on_card(np.full(lengths[cards.rank], np.nan)) for _ in range(size)]
        parts = [on_card(100 * cards.rank + 10 * q + np.arange(n)) for q, n in enumerate(lengths)]
        cards.all_to_all(parts, receive).wait()
        whole = on_card(np.full(2 * size, np.nan), "float64")
        views = [whole[2 * q : 2 * q + 2] for q in range(size)]
        views[cards.rank][...] = cards.rank
        cards.all_gather(views[cards.rank], views).wait()
        return [x.tolist() for x in receive], whole.tolist()

    for rank, (received, whole) in enumerate(in_threads(size, work)):
        assert received == [[100 * q + 10 * rank + i for i in range(lengths[rank])] for q in range(size)]
        assert whole == [rank for rank in range(size) for _ in range(2)]
    assert sorted(wire.names) == [(size, b"name", rank) for rank in range(size)]


def test_an_error_of_nccl_ends_a_wait(wire):
    def work(ranks):
        request = on_cards(ranks).all_gather(on_card([1.0]), [on_card([0.0])])
        wire.problem = "NCCL_ERROR_SYSTEM_ERROR"
        with pytest.raises(RankLostError, match="between GPUs: expected to end, got NCCL_ERROR_SYSTEM_ERROR"):
            request.wait()

    in_threads(1, work)


def test_without_nccl_the_way_to_it_is_told(wire):
    wire.available = False
    with pytest.raises(DeviceError, match=r"expected NCCL, which connects GPUs, got none; .*nccl12.*nccl13"):
        in_threads(1, on_cards)  # before a run has a folder


def test_a_card_is_known_by_its_bus_and_its_machine():
    runtime = SimpleNamespace(deviceGetPCIBusId=lambda number: f"0000:3{number}:00.0")
    device = SimpleNamespace(cupy=SimpleNamespace(cuda=SimpleNamespace(runtime=runtime)), number=1)
    assert CupyDevice.card.fget(device) == f"0000:31:00.0 of {platform.node()}"
