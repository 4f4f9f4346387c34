"""Lets a second thread share the products of a decoding step: arrays by address, and atomic numbers.

With a few tokens a matrix product reuses little: a step takes as long as reading the weights. One core cannot read as
fast as memory can deliver, so two threads read: the leader the left half of the columns, the helper the right half.

Handing a job to a thread takes 10 µs or more, taking a half less than 1 µs. So a helper stays in its kernel from
product to product, and leaves once none has come for a while. A half that it has not begun when the leader is done with
the other is the leader's: a helper that is late, asleep or gone costs nothing but its help. If the system suspends a
helper that has begun, the leader gives it up and computes that half, too. The helper writes to memory of its own, which
nobody uses until it has left.

    ticket    odd: a right half that nobody has begun; it only grows, so taking it is one compare-and-swap
    done      the ticket of the half that the helper has computed
    present   whether a helper has been asked to come and has not left
    lost      whether the leader has given the helper up
    wanted    whether the helper is wanted elsewhere, and need not wait for more here
    job       rows, m, columns of w in memory, n, the addresses of x (rows, m), w (m, n) and the bias (n,), zeros
"""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Any

from llvmlite import ir
from numba import carray, types
from numba.extending import intrinsic

from npformer.engine.numba.arguments import OutRows, OutVector, OutWhole, Rows, Vector
from npformer.engine.numba.compiling import inlined, kernel
from npformer.engine.numba.linear import affine
from npformer.typing import HostArray

#: Places in an array of int64, each with a cache line of its own, since another thread may be writing it.
TICKET, DONE, PRESENT, LOST, WANTED, JOB, SLOTS = 0, 8, 16, 24, 32, 40, 48
MOST_LOOKS = 10_000  # looks before a helper leaves, or is given up: some 0.4 ms
NUMBERS_A_LOOK = 50  # of a half: its reader has four times as long as it needs

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


def invite(shared: HostArray, half: HostArray, kept: Any) -> None:
    """Ask for help at shared (SLOTS,), unless somebody is there, perhaps asleep; kept holds what he reads."""
    if not shared[PRESENT]:
        shared[LOST] = 0
        helper.invite(partial(_help, shared, half, kept), shared)


def _help(shared: HostArray, half: HostArray, kept: Any) -> None:
    help_with_rows(shared, MOST_LOOKS, half)


@kernel(calls="decoding")
def help_with_rows(shared: OutWhole, most_looks: int, half: OutVector):
    """The helper's loop: compute right halves until none has come for a while, or until it is not wanted any more."""
    looks = 0
    while looks < most_looks and load(shared, LOST) + load(shared, WANTED) == 0:
        ticket = load(shared, TICKET)
        if ticket % 2 == 1 and swap_if(shared, TICKET, ticket, ticket + 1):
            rows, m, wide, n = shared[JOB], shared[JOB + 1], shared[JOB + 2], shared[JOB + 3]
            x, w = matrix(shared[JOB + 4], rows, m, half), matrix(shared[JOB + 5], m, wide, half)
            affine(
                x,
                w,
                vector(shared[JOB + 6], n, half),
                shared[JOB + 7] != 0,
                n // 2,
                n,
                half[: rows * n].reshape(rows, n),
            )
            store(shared, DONE, ticket)
            looks = 0
        looks += 1
        pause()
    store(shared, PRESENT, 0)


@kernel(calls="decoding")
def few_rows_by_two(x: Rows, w: Rows, bias: Vector, zeros: bool, y: OutRows, shared: OutWhole, half: OutVector):
    """``few_rows``; a helper, if one is there, computes the right half of y and leaves it in half."""
    n, ticket, is_done = y.shape[1], load(shared, TICKET) // 2 * 2 + 3, False
    if load(shared, PRESENT) == 0 or load(shared, LOST) != 0:
        affine(x, w, bias, zeros, 0, n, y)
        return
    shared[JOB], shared[JOB + 1], shared[JOB + 2], shared[JOB + 3] = x.shape[0], x.shape[1], w.shape[1], n
    shared[JOB + 4], shared[JOB + 5], shared[JOB + 6] = x.ctypes.data, w.ctypes.data, bias.ctypes.data
    shared[JOB + 7] = zeros
    store(shared, TICKET, ticket)
    affine(x, w, bias, zeros, 0, n // 2, y)
    if not swap_if(shared, TICKET, ticket, ticket + 1):
        looks = MOST_LOOKS + x.shape[0] * w.size // NUMBERS_A_LOOK
        while looks > 0 and not is_done:
            is_done = load(shared, DONE) == ticket
            looks -= 1
            pause()
        if not is_done:
            store(shared, LOST, 1)
    if not is_done:
        affine(x, w, bias, zeros, n // 2, n, y)
        return
    others = half[: y.size].reshape(y.shape)
    for r in range(y.shape[0]):
        for j in range(n // 2, n):
            y[r, j] = others[r, j]


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
