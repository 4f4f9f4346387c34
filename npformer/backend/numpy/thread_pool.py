"""A pool of threads that share one job and wait for each other.

NumPy and compiled kernels release Python's lock while they compute, so threads do run at the same
time. What a pool is given are large parts (a whole forward and backward of some rows of a batch):
handing over costs 10 to 20 µs, once for each job and not for each operation. Each thread's matrix
products stay on that thread, since two pools of threads fight over the same cores. So do two of these:
one works at a time.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any
from weakref import WeakSet

from npformer.backend.numpy.blas_threads import one_blas_thread

Job = Callable[[], Any]


class _Task:
    """A job on its way: a thread does it, or the caller drops it before."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._taken: dict[str, str] = {}
        self._running = threading.Lock()  # no Event: an interrupt within Python's own would leave its lock torn
        self._running.acquire()
        self.error: BaseException | None = None

    def _is_for(self, who: str) -> bool:
        """Whether who took it first, now or before; one step, which no interrupt divides."""
        return self._taken.setdefault("by", who) == who

    def drop(self) -> bool:
        """Whether no thread does it, nor will; may be called again."""
        return self._is_for("caller")

    def do(self) -> None:
        if self._is_for("thread"):
            try:
                self._job()
            except BaseException as error:  # handed to the caller of ThreadPool.run, whatever it is
                self.error = error
            self._running.release()

    def wait(self) -> None:
        """Until it has ended; may be called again."""
        with self._running:  # taken and given back in one step each, which no interrupt divides
            pass


class _Here(threading.local):
    """Whether this thread is doing a pool's job."""

    busy = False


class ThreadPool:
    """size threads, the caller's own among them; the others start with the first job and end with the program."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._inboxes: list[SimpleQueue[_Task]] = []
        _pools.add(self)

    def run(self, jobs: Sequence[Job]) -> None:
        """Do jobs (at most ``size``) at the same time; returns when all have ended.

        Raises what a job raised, the first of several. Two callers take turns; a job that itself
        gives jobs to a pool does them one after the other.
        """
        if len(jobs) <= 1 or _here.busy:
            for job in jobs:
                job()
            return
        with _turn, one_blas_thread():
            error = self._hand_over(jobs[1:], jobs[0])
        if error is not None:
            try:
                raise error
            finally:
                del error  # it knows this frame: known by it in turn, it would keep a batch's arrays alive

    def _hand_over(self, others: Sequence[Job], own: Job) -> BaseException | None:
        """Give others to the threads and do own; when all have ended, returns the first error of others."""
        while len(self._inboxes) < len(others):
            self._inboxes.append(_new_thread())
        tasks = [_Task(job) for job in others]
        failed = _here.busy = True
        try:
            for inbox, task in zip(self._inboxes, tasks, strict=False):
                inbox.put(task)
            own()
            failed = False
        finally:  # after an interrupt, too, perhaps before all were handed over
            interrupt = _wait(tasks, dropping=failed)  # nobody writes on after run has ended
            _here.busy = False
            errors = [task.error for task in tasks]
            for task in tasks:
                task.error = None
        return next((error for error in (interrupt, *errors) if error is not None), None)


def _wait(tasks: Sequence[_Task], *, dropping: bool) -> BaseException | None:
    """Wait for tasks, dropping: for those begun, even if an interrupt arrives meanwhile; it is returned."""
    interrupt: BaseException | None = None
    while True:
        try:
            begun = [task for task in tasks if not (dropping and task.drop())]  # all at once, before it waits
            for task in begun:
                task.wait()
            return interrupt
        except BaseException as pressed:
            interrupt = pressed


def _new_thread() -> SimpleQueue[_Task]:
    """Start a thread that does the tasks put into its inbox. It does not keep a program alive."""
    inbox: SimpleQueue[_Task] = SimpleQueue()

    def work() -> None:
        _here.busy = True
        while True:
            inbox.get().do()

    threading.Thread(target=work, name="npformer", daemon=True).start()
    return inbox


_here = _Here()
_turn = threading.Lock()
_pools: WeakSet[ThreadPool] = WeakSet()


def _start_over() -> None:
    """In the child of a fork, which has none of its parent's threads."""
    global _turn
    _turn = threading.Lock()
    _here.busy = False
    for pool in _pools:
        pool._inboxes = []


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_over)
