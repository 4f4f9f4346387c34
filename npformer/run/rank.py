"""Trains as one of the processes of a run: the first one tells, and an error of one ends all.

An error that all have alike, such as a bad option, is told by the first one, and all end by themselves. An error of one
alone, such as a full disk, is told by that one with its rank, and MPI ends the others.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from typing import Any

from npformer.engine.mpi import MpiRank, RankInfo, connect, launched
from npformer.errors import ConfigError, NpformerError, RankLostError, whole_number
from npformer.io.terminal import say_error
from npformer.run.processes import CHANNEL, HELLO, JOINED, KINDS, RUN, launch

#: What trains: from a communicator, None for one process, to the exit code.
Train = Callable[[Any], int]


def in_processes(count: int | None, words: Sequence[str], train: Train) -> int:
    """train here, as one process or one of those of a launcher, or in count new ones, which are given these words.

    Returns the exit code.
    """
    info = launched()
    if count is not None:
        whole_number("--processes", count, at_least=1)
    if info is not None:
        if count is not None and CHANNEL not in os.environ:
            if info.rank > 0:
                return ConfigError.exit_code  # the first one tells
            raise ConfigError(
                f"--processes: expected no launcher around it, got one that started {info.size}; leave out one of both"
            )
        return _as_rank(info, train)
    if CHANNEL in os.environ:
        raise ConfigError(
            "--processes: expected mpiexec to tell each process its number, as MPICH's, Open MPI's and Slurm's do, got "
            "none; start with another launcher, without --processes, or unset " + CHANNEL
        )
    return train(None) if count in (None, 1) else launch(count, words)


def tell_folder(run: Path) -> None:
    """Tell the process that started this one, if one did, where the run is."""
    if CHANNEL in os.environ:
        Path(os.environ[CHANNEL]).with_name(RUN).write_bytes(os.fsencode(run))


def _as_rank(info: RankInfo, train: Train) -> int:
    """train as this rank. Returns the exit code; raises what all ranks raise, on the first of them."""
    tell = _join(info)
    ranks: MpiRank | None = None
    try:
        ranks = connect(info)
        tell(JOINED)
        with _silence() if info.rank else nullcontext():
            code = train(ranks)
        sys.stdout.flush()
    except BaseException as error:
        code = _code_of(error)
        if not isinstance(error, RankLostError):  # the lost one is to blame
            tell(bytes([code]))
        if ranks is None or getattr(error, "raised_on_every_rank", False):
            if info.rank == 0:
                raise
            return code
        _explain(info, error)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # MPI would add that it was aborted
        ranks.abort(code)
    tell(bytes([code]))
    return code


@contextmanager
def _silence() -> Iterator[None]:
    """Within this context nothing is shown: the first rank speaks for all, and warns, and shows bars."""
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        yield


def _join(info: RankInfo) -> Callable[[bytes], None]:
    """Take the outputs from the process that started this one, and listen to it. Returns what tells it a word."""
    path = os.environ.get(CHANNEL)
    if path is None:
        return lambda word: None
    channel = socket.socket(*KINDS)
    channel.connect(path)
    channel.send(HELLO.pack(info.rank, os.getpid()))
    _, files, _, _ = socket.recv_fds(channel, 1, 2)
    for file, output in zip(files, (1, 2)[-len(files) :], strict=True):
        os.dup2(file, output)
        os.close(file)
    if hasattr(os, "sched_setaffinity"):  # its part of the processor's cores
        cores = sorted(os.sched_getaffinity(0))
        width = max(1, len(cores) // info.size)
        first = info.rank * width % len(cores)
        os.sched_setaffinity(0, cores[first : first + width])
    threading.Thread(target=_listen, args=(channel,), daemon=True).start()

    def tell(word: bytes) -> None:
        with suppress(OSError):
            channel.send(word)

    return tell


def _listen(channel: socket.socket) -> None:
    """Pass on the signals of the process that started this one, and end with it."""
    with suppress(OSError):
        while told := channel.recv(1):
            os.kill(os.getpid(), told[0])
    os._exit(1)


def _code_of(error: BaseException) -> int:
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 1
    if isinstance(error, KeyboardInterrupt | BrokenPipeError):
        return 128 + (signal.SIGINT if isinstance(error, KeyboardInterrupt) else signal.SIGPIPE)
    return error.exit_code if isinstance(error, NpformerError) else 1


def _explain(info: RankInfo, error: BaseException) -> None:
    """Say why this process ends all."""
    if not isinstance(error, NpformerError | KeyboardInterrupt | BrokenPipeError | MemoryError):
        traceback.print_exception(error)
    told = str(error) or type(error).__name__
    with suppress(OSError):
        say_error(told if info.rank == 0 else f"rank {info.rank} of {info.size}: {told}")
        sys.stderr.flush()
