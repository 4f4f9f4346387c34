"""Lets threads share the work of one kernel: arrays by address, and atomic numbers.

A phase of work is cut into parts. The leading kernel opens a phase and takes parts from its front. A helping kernel on
another thread takes parts from its back, so that each core reads the weights that it read the last time. The leader
waits only for parts that were taken: a helper that is late, asleep or gone costs nothing but its help. Handing a job to
a thread takes 10 µs or more, taking a part less than 1 µs. So a helper stays in its kernel from phase to phase, and
leaves once no phase has been opened for a while. If the system suspends a helper that has taken a part, the leader
gives it up and repeats the step alone, in other memory.

    ticket    (phase·MOST_PARTS + parts taken from the back)·MOST_PARTS + parts taken from the front; it only grows,
              so taking a part is one compare-and-swap
    done      parts of this phase that have been computed
    present   whether a helper has been asked to come and has not left
    lost      whether the leader has given the helper up
    wanted    whether the helper is wanted elsewhere, and need not wait for more here
    asleep    the phase from which on one part counts as taken and is never done, for tests of a lost helper; 0: none
"""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from llvmlite import ir
from numba import carray, types
from numba.extending import intrinsic

from npformer.engine.numba.compiling import inlined

MOST_PARTS = 64
#: Places in an array of int64, each with a cache line of its own, since another thread may be writing it.
TICKET, DONE, PRESENT, LOST, WANTED, ASLEEP, SLOTS = 0, 8, 16, 24, 32, 40, 48
MOST_LOOKS = 10_000  # looks before a helper leaves, or is given up: some 0.4 ms

_HAS_PAUSE = platform.machine().lower() in ("x86_64", "amd64")


@intrinsic
def _pointer(typing_context, address, like):
    """address, an int64, as a pointer to numbers of like's dtype."""
    signature = types.CPointer(like.dtype)(types.int64, like)

    def generate(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return signature, generate


@inlined
def vector(address, n, like):
    """The n numbers that begin at address, of like's dtype."""
    return carray(_pointer(address, like), (n,))


@inlined
def matrix(address, m, n, like):
    """The m·n numbers that begin at address, in rows."""
    return carray(_pointer(address, like), (m, n))


def _place(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    """A pointer to array[index]."""
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [index])


@intrinsic
def load(typing_context, array, index):
    """Atomic load of array[index] (acquire): sees all that its writer wrote before."""

    def generate(context, builder, signature, arguments):
        return builder.load_atomic(_place(context, builder, signature.args[0], *arguments), "acquire", 8)

    return types.int64(array, types.int64), generate


@intrinsic
def store(typing_context, array, index, value):
    """Atomic store of value to array[index] (release): after all that was written before."""

    def generate(context, builder, signature, arguments):
        place = _place(context, builder, signature.args[0], *arguments[:2])
        builder.store_atomic(arguments[2], place, "release", 8)
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64), generate


@intrinsic
def add(typing_context, array, index, value):
    """Atomic array[index] += value."""

    def generate(context, builder, signature, arguments):
        place = _place(context, builder, signature.args[0], *arguments[:2])
        return builder.atomic_rmw("add", place, arguments[2], "acq_rel")

    return types.int64(array, types.int64, types.int64), generate


@intrinsic
def swap_if(typing_context, array, index, expected, value):
    """Atomic compare-and-swap of array[index] from expected to value. Returns whether it happened."""

    def generate(context, builder, signature, arguments):
        place = _place(context, builder, signature.args[0], *arguments[:2])
        result = builder.cmpxchg(place, arguments[2], arguments[3], "acq_rel", "acquire")
        return builder.extract_value(result, 1)

    return types.boolean(array, types.int64, types.int64, types.int64), generate


@intrinsic
def pause(typing_context):
    """The processor's instruction for waiting in a loop."""

    def generate(context, builder, signature, arguments):
        if _HAS_PAUSE:
            kind = ir.FunctionType(ir.VoidType(), [])
            name = "llvm.x86.sse2.pause"
            function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
            builder.call(function, [])
        return context.get_dummy_value()

    return types.void(), generate


@inlined
def open_phase(shared, phase):
    """Open a phase, so that its parts can be taken."""
    is_asleep = 0 < load(shared, ASLEEP) <= phase
    store(shared, DONE, 0)
    store(shared, TICKET, (phase * MOST_PARTS + is_asleep) * MOST_PARTS)


@inlined
def phase_of(shared):
    """The phase that was opened last."""
    return load(shared, TICKET) // (MOST_PARTS * MOST_PARTS)


@inlined
def take(shared, parts, from_back):
    """Take a free part. Returns phase·MOST_PARTS + part, or −1 if none is free."""
    while True:
        ticket = load(shared, TICKET)
        front, back = ticket % MOST_PARTS, ticket // MOST_PARTS % MOST_PARTS
        if front + back >= parts:
            return -1
        if swap_if(shared, TICKET, ticket, ticket + (MOST_PARTS if from_back else 1)):
            return ticket // (MOST_PARTS * MOST_PARTS) * MOST_PARTS + (parts - 1 - back if from_back else front)


@inlined
def finish(shared, parts, most_looks):
    """Wait until all parts of the open phase are done. False: a helper seems to be suspended with a part."""
    looks = 0
    while load(shared, DONE) < parts:
        if looks == most_looks:
            store(shared, LOST, 1)
            return False
        looks += 1
        pause()
    return True


class Helper:
    """One thread that helps one leader after the other; it starts when it is first invited."""

    def __init__(self) -> None:
        self._start_over()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._start_over)  # the child of a fork has no thread but its own

    def _start_over(self) -> None:
        self._inbox: SimpleQueue[Callable[[], Any]] = SimpleQueue()
        self._starting = threading.Lock()
        self._started = False
        self._where: Any = None

    def invite(self, job: Callable[[], Any], shared: Any) -> None:
        """Let the thread help with job at shared (SLOTS,), as soon as it has left its previous leader."""
        with self._starting:
            if self._where is not None:
                self._where[WANTED] = 1
            self._where, shared[PRESENT], shared[WANTED] = shared, 1, 0
            if not self._started:
                threading.Thread(target=_work, args=(self._inbox,), name="npformer helper", daemon=True).start()
                self._started = True
        self._inbox.put(job)


def _work(inbox: SimpleQueue[Callable[[], Any]]) -> None:
    while True:
        inbox.get()()  # nothing is kept of it meanwhile


helper = Helper()
