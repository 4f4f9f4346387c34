"""A system whose disk fails at a call that is counted."""

import errno
import os

from npformer.io import atomic_files
from npformer.run import checkpoint


class WatchedSystem:
    """The os module; `fail_at` counts calls that change the disk, `watch` runs after each of them."""

    CALLS = ("open", "write", "fsync", "close", "replace", "rename", "mkdir")

    def __init__(self, fail_at=-1, lasting=False, code=errno.ENOSPC):
        self.fail_at, self.lasting, self.code, self.calls = fail_at, lasting, code, 0
        self.watch = lambda: None

    def __getattr__(self, name):
        real = getattr(os, name)
        return self._counted(name, real) if name in self.CALLS else real

    def _counted(self, name, real):
        def call(*args):
            self.calls += 1
            due = self.calls - 1 == self.fail_at or (self.lasting and self.calls > self.fail_at)
            if due and name != "close":
                if name == "write":
                    real(args[0], args[1][: len(args[1]) // 2])
                raise OSError(self.code, os.strerror(self.code))
            result = real(*args)
            self.watch()
            return result

        return call


def full_disk(monkeypatch):
    """From now on the disk takes three bytes more."""
    taken, real = [], os.write

    def write(descriptor, data):
        if taken:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken.append(real(descriptor, data[:3]))
        return taken[0]

    monkeypatch.setattr(os, "write", write)


def watched(monkeypatch, system):
    """From now on what writes files and checkpoints has this system."""
    monkeypatch.setattr(atomic_files, "os", system)
    monkeypatch.setattr(checkpoint, "os", system)


def every_failure(monkeypatch, lasting=False, code=errno.ENOSPC, least=3):
    """Systems that fail at the first call, at the second, … until one is never reached."""
    for fail_at in range(1000):
        system = WatchedSystem(fail_at, lasting, code)
        yield system
        watched(monkeypatch, os)
        if system.calls <= fail_at:
            assert fail_at > least, "the failing system was by-passed"
            return
