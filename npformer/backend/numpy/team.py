"""A team of threads that share one job and wait for each other.

NumPy and compiled bodies release Python's lock while they compute, so threads do run at the same
time. What a team is given are large parts (a whole forward and backward of some rows of a batch):
handing over costs 10 to 20 µs, once for each job and not for each operation. Each thread's matrix
products stay on that thread, since two pools of threads fight over the same cores.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from npformer.backend.numpy.blas_threads import one_blas_thread

Job = Callable[[], Any]


class _Member:
    """A thread that waits for a job, does it, says so, and waits again. It does not keep a program alive."""

    def __init__(self) -> None:
        self._go, self._done = threading.Lock(), threading.Lock()
        self._go.acquire()
        self._done.acquire()
        self._job: Job | None = None
        self._error: BaseException | None = None
        threading.Thread(target=self._work, name="npformer", daemon=True).start()

    def start(self, job: Job) -> None:
        self._job = job
        self._go.release()

    def finish(self) -> BaseException | None:
        """Wait for the job's end; returns what it raised."""
        self._done.acquire()
        return self._error

    def _work(self) -> None:
        while True:
            self._go.acquire()
            self._error = None
            try:
                assert self._job is not None
                self._job()
            except BaseException as error:  # handed to the caller of Team.run, whatever it is
                self._error = error
            self._job = None
            self._done.release()


class Team:
    """size threads, the caller's own among them; the others start with the first job."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._members: list[_Member] = []
        self._busy = threading.Lock()

    def run(self, jobs: Sequence[Job]) -> None:
        """Do jobs (at most ``size``) at the same time; returns when all are done.

        Raises what a job raised, the first of several, after all have ended. Two callers take turns.
        """
        if len(jobs) == 1:
            jobs[0]()
            return
        with self._busy, one_blas_thread():
            while len(self._members) < len(jobs) - 1:
                self._members.append(_Member())
            members = self._members[: len(jobs) - 1]
            for member, job in zip(members, jobs[1:], strict=True):
                member.start(job)
            errors: list[BaseException | None] = []
            try:
                jobs[0]()
            finally:  # also when interrupted: nobody writes on after run has ended
                errors = [_wait(member) for member in members]
        for error in errors:
            if error is not None:
                raise error


def _wait(member: _Member) -> BaseException | None:
    """Wait for a member even if an interrupt arrives meanwhile; it is raised afterwards."""
    interrupt: BaseException | None = None
    while True:
        try:
            error = member.finish()
        except KeyboardInterrupt as pressed:
            interrupt = pressed
            continue
        return interrupt or error
