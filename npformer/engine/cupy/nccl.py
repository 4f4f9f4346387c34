"""Ranks that have a GPU each, by NCCL: arrays go from card to card, on the stream that computes.

A message is a send on one rank and a receive on another; those of a call are one group, so none waits for an earlier
one. MPI tells all ranks the name under which NCCL connects them, at the first call.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from npformer.engine.communicator import Communicator, Request
from npformer.engine.mpi import MpiRank
from npformer.errors import DeviceError, RankLostError
from npformer.extras import install
from npformer.typing import Array


def between_cards(ranks: Any) -> Any:
    """The communicator for arrays on cards, of one for arrays on the host; others stay as they are."""
    return NcclRank(ranks) if isinstance(ranks, MpiRank) else ranks


class _OnStream(Request):
    """The request of what has been put on the current stream."""

    def __init__(self, cupy: Any, connection: Any) -> None:
        self._connection, self._event = connection, cupy.cuda.Event(disable_timing=True)
        self._event.record()

    def test(self) -> bool:
        """Whether the stream has come so far."""
        try:
            self._connection.check_async_error()
        except Exception as error:  # NcclError, of a module that may be missing
            raise RankLostError(f"an exchange between GPUs: expected to end, got {error}") from error
        return bool(self._event.done)


class NcclRank(Communicator):
    """The communicator of a process with a GPU of its own. Raises DeviceError without NCCL."""

    def __init__(self, ranks: MpiRank) -> None:
        import cupy
        from cupy.cuda import nccl

        if not nccl.available:
            raise DeviceError(
                f"processes: expected NCCL, which connects GPUs, got none; {install('nccl12')}, or the "
                "extra nccl13 for CUDA 13"
            )
        self.rank, self.size = ranks.rank, ranks.size
        self._ranks, self._cupy = ranks, cupy

    @cached_property
    def _connection(self) -> Any:
        nccl = self._cupy.cuda.nccl
        name = self._ranks.world.bcast(nccl.get_unique_id() if self.rank == 0 else None)
        return nccl.NcclCommunicator(self.size, name, self.rank)

    @property
    def on_host(self) -> MpiRank:
        """The communicator of MPI."""
        return self._ranks

    def messages(self, send: dict[int, Array], receive: dict[int, Array]) -> Request:
        """As the base class says, on the current stream."""
        connection, nccl = self._connection, self._cupy.cuda.nccl
        stream = self._cupy.cuda.get_current_stream().ptr
        nccl.groupStart()
        for arrays, move in ((send, connection.send), (receive, connection.recv)):
            for rank, x in arrays.items():
                if x.nbytes:
                    move(x.data.ptr, x.nbytes, nccl.NCCL_UINT8, rank, stream)
        nccl.groupEnd()
        return _OnStream(self._cupy, connection)
