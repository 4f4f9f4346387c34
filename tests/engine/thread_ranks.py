"""Ranks that are threads of one process: ``in_threads(n, work)`` runs n of them. They stand in for MPI's."""

import threading

from npformer.backend.numpy.blas import one_blas_thread
from npformer.engine.communicator import Communicator, Request
from npformer.errors import RankLostError


class _Board:
    """What the ranks of one process have sent: for each call, by its number, copies of each rank's arrays."""

    def __init__(self, size):
        self.size, self.lock = size, threading.Lock()
        self.calls = {}
        self.left = {}  # how many ranks have still to receive what was sent
        self.lost = None

    def post(self, number, rank, arrays):
        copies = {to: x.copy() for to, x in arrays.items()}
        with self.lock:
            self.left.setdefault(number, self.size)
            self.calls.setdefault(number, {})[rank] = copies

    def sent(self, number):
        """What every rank has sent in a call, by rank; None as long as one of them has not called."""
        if self.lost is not None:
            raise RankLostError(self.lost)
        with self.lock:
            call = dict(self.calls[number])
        return call if len(call) == self.size else None

    def received(self, number):
        """Forget a call once every rank has received what was sent."""
        with self.lock:
            self.left[number] -= 1
            if self.left[number] == 0:
                del self.left[number], self.calls[number]


class _Arrival(Request):
    """The request of one rank: receive[q] gets the array for this rank of what q has sent."""

    def __init__(self, board, number, rank, receive):
        self._board, self._number, self._rank, self._receive = board, number, rank, receive
        self._has_ended = False

    def test(self):
        """Whether all have sent, and it was copied."""
        if not self._has_ended and (sent := self._board.sent(self._number)) is not None:
            came = {rank: arrays[self._rank] for rank, arrays in sent.items() if self._rank in arrays}
            there = {rank: x.shape for rank, x in came.items()}
            room = {rank: place.shape for rank, place in self._receive.items()}
            if there != room:  # MPI would not say, and NumPy would broadcast one number
                raise ValueError(f"call {self._number}: expected arrays {there} by rank, got room {room}")
            for rank, place in self._receive.items():
                place[...] = came[rank]
            self._board.received(self._number)
            self._has_ended = True
        return self._has_ended


class ThreadRank(Communicator):
    """The communicator of one rank among several in one process."""

    def __init__(self, board, rank):
        self.rank, self.size = rank, board.size
        self._board, self._number = board, 0

    def messages(self, send, receive):
        """As the base class says; all ranks' calls are compared."""
        number, self._number = self._number, self._number + 1
        self._board.post(number, self.rank, send)
        return _Arrival(self._board, number, self.rank, receive)


def in_threads(size, work):
    """work(communicator) of each of so many ranks, all at the same time, in threads of this process; by rank.

    All products take one BLAS thread, since that number belongs to the whole process. If work fails on one rank, the
    others' exchanges raise RankLostError, and the first error is raised here.
    """
    board, results, errors = _Board(size), [None] * size, []

    def run(rank):
        try:
            results[rank] = work(ThreadRank(board, rank))
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
    return results
