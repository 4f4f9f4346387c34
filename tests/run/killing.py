"""Kills of one's own at a moment that is counted and not timed: for processes of tests."""

import os
import signal

#: What changes a disk, or ends such a change. A kill between two of these calls is a kill before the second.
CHANGES = ("open", "write", "fsync", "close", "mkdir", "rename", "replace", "truncate", "unlink", "rmdir")


def kill_at(moment):
    """From now on count this process's calls of CHANGES, and kill it at that one: before it, of a write halfway."""
    calls = 0

    def counted(name, real):
        def call(*args, **named):
            nonlocal calls
            calls += 1
            if calls == moment:
                if name == "write":
                    real(args[0], args[1][: len(args[1]) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **named)

        return call

    for name in CHANGES:
        setattr(os, name, counted(name, getattr(os, name)))
