"""Records what each thread does with its shard of a batch, once per shape, and replays it as one call.

A step of a small model calls some hundred kernels of a few µs each. Between them runs Python, which only one thread at
a time can execute. As a record they are one call, and threads do not wait for each other.

It is ``Captured`` (``engine/capture.py``) on the host as its device: the first time a shape runs as it is, the second
time it is recorded, and a function that cannot be recorded always runs as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from npformer.backend.workspace import Pool, PoolFull, address, forget_unused, from_pool
from npformer.engine.capture import Captured, Driver
from npformer.engine.numba.call_program import program, run
from npformer.engine.numba.recording import NotRecordable, Staged, Tape, Traced, array_words, here
from npformer.engine.staging import places
from npformer.typing import HostArray

#: Bytes that a thread's records may keep. A step that needs more is so long that the time Python takes does not count.
MOST_MEMORY = 1 << 28
MOST_SHAPES = 64  # records of one thread: texts come in many lengths


def captured_part(
    function: Callable[..., Any], static_arguments: Callable[[Any], Sequence[Any]], dtype: str, times: int = 1
) -> Captured:
    """The function, replayed if possible. Each thread needs one of its own."""
    most = times * MOST_SHAPES
    return Captured(function, static_arguments, HostDriver(dtype), dtype, say=lambda text: None, most=most)


class Stage:
    """One block of memory for the inputs of a record."""

    def __init__(self, like: Sequence[HostArray]) -> None:
        starts, size = places(like)
        block = np.ndarray.__new__(Staged, (size,), np.uint8)
        self._places = tuple(np.ndarray(x.shape, x.dtype, block, start) for x, start in zip(like, starts, strict=True))

    @property
    def arrays(self) -> tuple[HostArray, ...]:
        """The arrays of the stage; while this thread records, without numbers."""
        return self._places if here.tape is None else tuple(x.view(Traced) for x in self._places)

    def fill(self, numbers: Sequence[HostArray]) -> None:
        """Copy numbers into the arrays."""
        for place, x in zip(self._places, numbers, strict=True):
            place[...] = x


class Record:
    """A tape that is ready to run."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape  # its pool, and all that it has addresses of
        self._words, starts = program(tape.calls, tape.dtype)
        self._live: dict[int, tuple[HostArray, list[int]]] = {}
        for call, word, x in tape.live:
            self._live.setdefault(address(x), (x, []))[1].append(starts[call] + word)
        self._kept = [(number, starts[call] + word) for call, word, number in tape.kept]
        self._program = address(self._words), self._words.size

    def give(self, arrays: Sequence[HostArray]) -> None:
        """Let these take the place of the ``Kept`` arrays, in the order of their numbers."""
        for number, start in self._kept:
            words = array_words(arrays[number], address(arrays[number]))
            self._words[start : start + len(words)] = words

    def run(self, times: int = 1, stops: int = 0) -> None:
        """Run the kernels on the numbers now in the stage, as ``call_program.run`` says."""
        for x, where in self._live.values():
            if x.dtype.kind == "f":
                self._words.view(np.float64)[where] = x
            else:
                self._words[where] = x.view(np.int64)
        run(*self._program, times, stops)


class HostDriver(Driver):
    """The host: all records share one pool, which has its limit, and the system reports full memory."""

    name = "CPU"
    at_first_sight = False  # what is computed by other means than kernels shows only beside a run

    def __init__(self, dtype: str) -> None:
        self.dtype, self.memory = dtype, object()
        self.few: Callable[..., None] | None = None  # see Tape
        self._pool = Pool(limit=MOST_MEMORY)  # of all records: one is run at a time, and keeps nothing in between

    def stage(self, like: Sequence[HostArray]) -> Stage:
        return Stage(like)

    def record(self, work: Callable[[], Any]) -> tuple[Record | None, Any]:
        """Record work without computing anything; None if memory is too small. Raises NotRecordable."""
        forget_unused()  # the thread's own buffers are not needed again; freed first, they become the record's
        try:
            first, _ = self._written_down(work)
            tape, outputs = self._written_down(work)
        except PoolFull:
            return None, ()
        except Exception as error:  # work, for which arrays without numbers are nothing that it knows
            raise NotRecordable(f"{type(error).__name__}: {error}") from error
        if [address for _, address in tape.lasting] != [address for _, address in first.lasting]:
            raise NotRecordable("something is computed by other means than kernels")
        return Record(tape), outputs

    def _written_down(self, work: Callable[[], Any]) -> tuple[Tape, Any]:
        here.tape = tape = Tape(self.dtype, self._pool, self.few)
        try:
            with from_pool(self._pool, Traced), np.errstate(all="ignore"):
                outputs = work()
        finally:
            here.tape = None
        return tape, tuple(None if x is None else np.asarray(x) for x in outputs)

    def launch(self, record: Record) -> None:
        record.run()

    def blank(self, x: HostArray) -> HostArray:
        return np.empty(np.shape(x), x.dtype)
