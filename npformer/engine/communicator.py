"""How the ranks of a run exchange arrays. A rank is one of several that make the same steps, each on rows of its own.

Every rank makes the same calls in the same order, as with MPI. A call returns a ``Request`` at once, and the exchange
proceeds while its ``test`` is called, as ``wait`` does: a wait that polls can be ended, by a signal or by a rank that
is lost, where one inside of a library cannot. Until a request has ended, its arrays belong to it. Arrays are contiguous
and of one dimension, live on the backend's device, and may be empty.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from npformer.io.seconds import pause
from npformer.typing import Array

SPINS = 200  # tests of a wait before it sleeps between two, longer and longer: most exchanges end sooner
SHORTEST, LONGEST = 10e-6, 1e-3  # seconds


class Request:
    """An exchange that was begun; this one is of no messages."""

    def test(self) -> bool:
        """Whether it has ended. Does not wait. Raises RankLostError if it never will."""
        return True

    def wait(self) -> None:
        """Poll until it has ended."""
        tests = 0
        while not self.test():
            tests += 1
            pause(0 if tests < SPINS else min(LONGEST, SHORTEST * (tests - SPINS)))


class Communicator:
    """One rank's way to the others, by messages; as it stands here, that of a run of one process."""

    rank, size = 0, 1

    @property
    def on_host(self) -> Communicator:
        """The one for arrays of the host."""
        return self

    def all_to_all(self, send: Sequence[Array], receive: Sequence[Array]) -> Request:
        """send[q] arrives in receive[r] of rank q, where r is this rank; both have ``size`` arrays."""
        if receive[self.rank] is not send[self.rank]:
            receive[self.rank][...] = send[self.rank]
        others = [rank for rank in range(self.size) if rank != self.rank]
        return self.messages({q: send[q] for q in others}, {q: receive[q] for q in others})

    def all_gather(self, send: Array, receive: Sequence[Array]) -> Request:
        """send arrives in receive[r] of every rank; receive[r] may be send itself."""
        return self.all_to_all([send] * self.size, receive)

    def messages(self, send: dict[int, Array], receive: dict[int, Array]) -> Request:
        """Begin to send to, and to receive from, the other ranks of these numbers. Raises RankLostError."""
        return Request()

    def gather_json(self, own: Any) -> list[Any]:
        """What each rank passes, by rank: anything that JSON knows."""
        ranks, text = self.on_host, np.frombuffer(json.dumps(own).encode(), np.uint8)
        lengths = np.zeros((ranks.size, 1), np.int64)
        ranks.all_gather(np.full(1, len(text)), list(lengths)).wait()
        texts = [np.empty(length, np.uint8) for (length,) in lengths]
        ranks.all_gather(text, texts).wait()
        return [json.loads(text.tobytes()) for text in texts]
