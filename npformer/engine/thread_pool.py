"""A thread pool for the shards of a batch: it runs a few jobs at the same time and waits for all of them.

NumPy and compiled kernels release Python's global lock (GIL) while they compute, so the threads run in
parallel. The jobs are large (the whole forward and backward of some rows of a batch): handing one
over takes 10 to 20 µs, once per job and not once per operation. Each thread's matrix products stay on
that thread, since BLAS's threads would compete for the same cores. Two pools would compete too, so
only one runs at a time.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any
from weakref import WeakSet

from npformer.backend.numpy.blas import one_blas_thread

Job = Callable[[], Any]


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _nothing() -> None:
    """The job of a task that is done."""


class _Task:
    """A job handed over: a thread runs it, unless the caller drops it first."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._taken: dict[str, str] = {}
        self._running = threading.Lock()  # not an Event: an interrupt inside it would leave its lock held
        self._running.acquire()
        self._has_ended = False
        self.error: BaseException | None = None

    def _is_for(self, who: str) -> bool:
        """Whether who is the first to claim it, now or earlier. The claim is atomic even under an interrupt."""
        return self._taken.setdefault("by", who) == who

    def drop(self) -> bool:
        """Drop the job. Returns whether no thread runs it, now or later. May be called again."""
        return self._is_for("caller")

    def do(self) -> None:
        if self._is_for("thread"):
            job, self._job = self._job, _nothing  # what it holds is the caller's alone once it has ended
            try:
                job()
            except BaseException as error:  # any error is passed to the caller of ThreadPool.run
                self.error = error
            del job
            self._has_ended = True
            self._running.release()

    def wait(self) -> None:
        """Wait until it has ended. May be called again."""
        if not self._has_ended:  # else the lock may be torn: acquired by a wait that an interrupt ended
            with self._running:
                pass


class _OwnPool(threading.local):
    """Whether this thread is running a pool's job."""

    busy = False


class ThreadPool:
    """size threads, including the caller's. The others start with the first job and end with the program."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._inboxes: list[SimpleQueue[_Task]] = []
        _pools.add(self)

    def run(self, jobs: Sequence[Job]) -> None:
        """Run jobs (at most ``size``) at the same time. Returns when all have ended.

        Raises the error of a job, the first if there are several. Two callers take turns. A job that itself
        gives jobs to a pool runs them one after the other.
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
                del error  # its traceback refers to this frame: the cycle would keep a batch's arrays alive

    def _hand_over(self, others: Sequence[Job], own: Job) -> BaseException | None:
        """Hand others to the threads and run own. When all have ended, returns the first error of others."""
        while len(self._inboxes) < len(others):
            self._inboxes.append(_new_thread())
        tasks = [_Task(job) for job in others]
        failed, interrupt = True, None
        try:
            try:
                _here.busy = True
                for inbox, task in zip(self._inboxes, tasks, strict=False):
                    inbox.put(task)
                own()
                failed = False
            finally:  # also after an interrupt, perhaps before all were handed over
                interrupt = _wait(tasks, dropping=failed)  # no thread may write after run has ended
                _here.busy = False
        finally:  # also after a second one, which came before that wait had begun
            interrupt = _wait(tasks, dropping=failed) or interrupt
            _here.busy = False
            errors = [task.error for task in tasks]
            for task in tasks:
                task.error = None
        return next((error for error in (interrupt, *errors) if error is not None), None)


def _wait(tasks: Sequence[_Task], *, dropping: bool) -> BaseException | None:
    """Wait for the tasks (dropping: only for those begun), even during an interrupt. Returns the interrupt or None."""
    interrupt: BaseException | None = None
    while True:
        try:
            begun = [task for task in tasks if not (dropping and task.drop())]  # drop all before waiting for any
            for task in begun:
                task.wait()
            return interrupt
        except BaseException as pressed:
            interrupt = pressed


def _new_thread() -> SimpleQueue[_Task]:
    """Start a daemon thread that runs the tasks put into its inbox."""
    inbox: SimpleQueue[_Task] = SimpleQueue()

    def work() -> None:
        _here.busy = True
        while True:
            inbox.get().do()

    threading.Thread(target=work, name="npformer", daemon=True).start()
    return inbox


_here = _OwnPool()
_turn = threading.Lock()
_pools: WeakSet[ThreadPool] = WeakSet()


def _start_over() -> None:
    """Reset the pools in the child of a fork, which has none of its parent's threads."""
    global _turn
    _turn = threading.Lock()
    _here.busy = False
    for pool in _pools:
        pool._inboxes = []


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_over)
