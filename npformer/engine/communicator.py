"""How the ranks of a run exchange arrays. A rank is one of several that make the same steps, each on rows of its own.

Every rank makes the same calls in the same order, as with MPI. A call returns a ``Request`` at once, and the exchange
proceeds while its ``test`` is called, as ``wait`` does: a wait that polls can be ended, by a signal or by a rank that
is lost, where one inside of a library cannot. Until a request has ended, its arrays belong to it. Arrays are contiguous
and of one dimension, live on the backend's device, and may be empty.

    all_to_all(send, receive)     send[q] arrives in receive[r] of rank q, where r is this rank
    all_gather(send, receive)     send arrives in receive[r] of every rank
    broadcast(array, root)        the array of rank root arrives in that of every other rank
    barrier()                     ends once every rank has called it

``Alone`` is a run of one process. ``in_threads(n, work)`` runs n ranks in one process, for tests: there, exchanges also
compare what the ranks call.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from npformer.backend.numpy.blas_threads import one_blas_thread
from npformer.errors import RankLostError
from npformer.io.seconds import pause
from npformer.typing import Array

Result = TypeVar("Result")
SPINS = 200  # tests of a wait before it sleeps between two, longer and longer: most exchanges end sooner
SHORTEST, LONGEST = 10e-6, 1e-3  # seconds


class Request:
    """An exchange that was begun."""

    def test(self) -> bool:
        """Whether it has ended. Does not wait. Raises RankLostError if it never will."""
        raise NotImplementedError

    def wait(self) -> None:
        """Poll until it has ended."""
        tests = 0
        while not self.test():
            tests += 1
            pause(0 if tests < SPINS else min(LONGEST, SHORTEST * (tests - SPINS)))


class Communicator(Protocol):
    """One rank's way to the others; see the module's docstring."""

    @property
    def rank(self) -> int:
        """This rank's number, from 0."""

    @property
    def size(self) -> int:
        """How many ranks there are."""

    def all_to_all(self, send: Sequence[Array], receive: Sequence[Array]) -> Request:
        """``size`` arrays each; send[q] has the length of receive[r] at rank q. send[r] is copied to receive[r]."""

    def all_gather(self, send: Array, receive: Sequence[Array]) -> Request:
        """receive[q] has the length of send at rank q; receive[r] may be send itself."""

    def broadcast(self, array: Array, root: int = 0) -> Request:
        """The array has the same length at every rank."""

    def barrier(self) -> Request:
        """Of no array."""


class Ended(Request):
    """A request that has ended."""

    def test(self) -> bool:
        """True."""
        return True


class Alone:
    """The communicator of one process: everything has arrived already."""

    rank, size = 0, 1

    def all_to_all(self, send: Sequence[Array], receive: Sequence[Array]) -> Request:
        """send[0] is copied to receive[0]."""
        return self.all_gather(send[0], receive)

    def all_gather(self, send: Array, receive: Sequence[Array]) -> Request:
        """send is copied to receive[0]."""
        if receive[0] is not send:
            receive[0][...] = send
        return Ended()

    def broadcast(self, array: Array, root: int = 0) -> Request:
        """Nothing to do."""
        return Ended()

    def barrier(self) -> Request:
        """Nothing to do."""
        return Ended()


class _Board:
    """What the ranks of one process have sent: for each call, by its number, what it is and a copy of its arrays."""

    def __init__(self, size: int) -> None:
        self.size, self.lock = size, threading.Lock()
        self.calls: dict[int, dict[int, tuple[Any, Sequence[Array | None]]]] = {}
        self.left: dict[int, int] = {}  # how many ranks have still to receive what was sent
        self.lost: str | None = None

    def post(self, number: int, rank: int, what: Any, arrays: Sequence[Array | None]) -> None:
        copies = {id(x): None if x is None else x.copy() for x in arrays}  # one array may go to all
        with self.lock:
            self.left.setdefault(number, self.size)
            self.calls.setdefault(number, {})[rank] = what, [copies[id(x)] for x in arrays]

    def sent(self, number: int) -> list[Sequence[Array | None]] | None:
        """What every rank has sent in a call, by rank; None as long as one of them has not called."""
        if self.lost is not None:
            raise RankLostError(self.lost)
        with self.lock:
            call = dict(self.calls[number])
        if len(call) < self.size:
            return None
        calls = [call[rank][0] for rank in range(self.size)]
        if calls != [calls[0]] * self.size:
            raise ValueError(f"call {number}: expected the same call on every rank, got {calls}")
        return [call[rank][1] for rank in range(self.size)]

    def received(self, number: int) -> None:
        """Forget a call once every rank has received what was sent."""
        with self.lock:
            self.left[number] -= 1
            if self.left[number] == 0:
                del self.left[number], self.calls[number]


class _Arrival(Request):
    """The request of a rank in a process of several: receive[q] gets the array for this rank of what q has sent."""

    def __init__(self, board: _Board, number: int, rank: int, receive: Sequence[Array | None]) -> None:
        self._board, self._number, self._rank, self._receive = board, number, rank, receive
        self._has_ended = False

    def test(self) -> bool:
        """Whether all have sent, and it was copied."""
        if not self._has_ended and (sent := self._board.sent(self._number)) is not None:
            for arrays, place in zip(sent, self._receive, strict=True):
                if place is not None and (x := arrays[self._rank]) is not None:
                    if x.shape != place.shape:  # NumPy would broadcast one number
                        raise ValueError(f"call {self._number}: expected an array {x.shape}, got room {place.shape}")
                    place[...] = x
            self._board.received(self._number)
            self._has_ended = True
        return self._has_ended


class ThreadRank:
    """The communicator of one rank among several in one process; ``in_threads`` makes them."""

    def __init__(self, board: _Board, rank: int) -> None:
        self.rank, self.size = rank, board.size
        self._board, self._number = board, 0

    def all_to_all(self, send: Sequence[Array], receive: Sequence[Array]) -> Request:
        """As the protocol says."""
        return self._call("all_to_all", send, receive)

    def all_gather(self, send: Array, receive: Sequence[Array]) -> Request:
        """As the protocol says."""
        return self._call("all_gather", [send] * self.size, receive)

    def broadcast(self, array: Array, root: int = 0) -> Request:
        """As the protocol says."""
        send = [array if self.rank == root else None] * self.size
        receive = [array if rank == root != self.rank else None for rank in range(self.size)]
        return self._call(("broadcast", root), send, receive)

    def barrier(self) -> Request:
        """As the protocol says."""
        return self._call("barrier", [None] * self.size, [None] * self.size)

    def _call(self, what: Any, send: Sequence[Array | None], receive: Sequence[Array | None]) -> Request:
        number, self._number = self._number, self._number + 1
        self._board.post(number, self.rank, what, send)
        return _Arrival(self._board, number, self.rank, receive)


def in_threads(size: int, work: Callable[[Communicator], Result]) -> list[Result]:
    """work(communicator) of each of so many ranks, all at the same time, in threads of this process; by rank.

    All products take one BLAS thread, since that number belongs to the whole process. If work fails on one rank, the
    others' exchanges raise RankLostError, and the first error is raised here.
    """
    board, results, errors = _Board(size), [None] * size, []

    def run(rank: int) -> None:
        try:
            results[rank] = work(ThreadRank(board, rank))  # type: ignore[call-overload]
        except BaseException as error:  # any error is passed to the caller
            errors.append(error)
            if board.lost is None:
                board.lost = f"rank {rank} of {size}: expected to train on, got {type(error).__name__}: {error}"

    threads = [threading.Thread(target=run, args=(rank,), name=f"rank {rank}") for rank in range(size)]
    with one_blas_thread():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]
    return results  # type: ignore[return-value]
