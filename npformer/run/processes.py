"""Processes of a run, for ``--processes``: starts them under the MPI that is found, tells of signals, ends all.

The launcher has a session of its own, so that no signal of a terminal reaches it or them. Each process is connected to
this one by a socket (``_join``), through which

    it gets     the standard error of this process, the first one the standard output too; then signals' numbers
    it tells    its rank and its process's number; that MPI has connected it to the others; at its end, the exit code

One that is gone without that word was killed, or ended by the system. When this process is gone, they end themselves.

An error that all have alike, such as a bad option, is told by the first one, and all end by themselves. An error of one
alone, such as a full disk, is told by that one with its rank, and MPI ends the others.
"""

from __future__ import annotations

import math
import os
import selectors
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, redirect_stderr, redirect_stdout, suppress
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any

from npformer.engine.mpi import MpiRank, RankInfo, connect, launched
from npformer.errors import ConfigError, NpformerError, RankLostError, whole_number
from npformer.extras import install
from npformer.io.printable import shell_words
from npformer.io.seconds import now, since
from npformer.io.terminal import say_error
from npformer.run.signals import heard

#: The file beside it that names the run's folder.
RUN = "run"
#: The environment variable with the socket's path, and the form of the first word about a process.
CHANNEL, HELLO = "NPFORMER_LAUNCHER", struct.Struct("=ii")
KINDS = (socket.AF_UNIX, socket.SOCK_SEQPACKET)  # a message arrives whole
LONGEST = 80  # bytes of a folder's path: a socket's own path has 107 at most

PROGRAM = "import sys; from npformer.cli.main import main; sys.exit(main())"
JOINED = b"joined"
PATIENCE = 10.0  # seconds that the launcher has to end all, once one has ended
TO_JOIN = 120.0  # seconds from a process's first word until MPI has connected all: one may have died before


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


def launch(count: int, words: Sequence[str]) -> int:
    """Run the command of these words in so many processes of MPI; returns the exit code.

    Raises ConfigError if there is no MPI.
    """
    import npformer

    start = starting(count)
    here = Path(npformer.__file__).parents[1]
    python = [sys.executable, *([] if here == Path.cwd() else ["-P"]), "-c", PROGRAM]
    with ExitStack() as stack:
        parent = "/tmp" if len(os.fsencode(gettempdir())) > LONGEST else None
        folder = stack.enter_context(TemporaryDirectory(prefix="npformer-", dir=parent))
        server = stack.enter_context(socket.socket(*KINDS))
        server.bind(f"{folder}/launcher")
        server.listen(count)
        said = stack.enter_context(open(f"{folder}/said", "w+b"))
        environment = {"HOME": folder} | os.environ | {CHANNEL: f"{folder}/launcher"}  # Open MPI wants a HOME
        process = subprocess.Popen(
            [*start, *python, *words], stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=environment,
            start_new_session=True,
        )  # fmt: skip
        ranks = _Ranks(server, process, count)
        try:
            with heard(ranks.note, once=False):
                ranks.watch()
        finally:
            ranks.end()
        said.seek(0)
        place = Path(folder, RUN)
        run = os.fsdecode(place.read_bytes()) if place.exists() else ""
        return ranks.outcome(said.read().decode(errors="replace"), run)


def starting(count: int) -> list[str]:
    """The words that start so many processes on this machine. Open MPI's wants some that MPICH's refuses."""
    if not hasattr(os, "pidfd_open"):
        raise ConfigError(
            f"--processes: expected Linux, got {sys.platform}; start them yourself: mpiexec -n {count} npformer train"
        )
    beside = Path(sys.executable).with_name("mpiexec")
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None or find_spec("mpi4py") is None:
        missing = "no mpi4py" if found is not None else "no mpiexec"
        raise ConfigError(
            f"--processes: expected mpi4py and an MPI with its mpiexec, got {missing}; {install('mpi')} brings both"
        )
    told = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
    options = ["-launcher", "fork", "-hosts", "localhost"] if "HYDRA" in told else []
    if "Open MPI" in told or "OpenRTE" in told:
        options = ["--oversubscribe", "--bind-to", "none", *["--allow-run-as-root"] * (os.geteuid() == 0)]
    return [found, *options, "-n", str(count)]


class _Ranks:
    """The processes of a run, as this one sees them."""

    def __init__(self, server: socket.socket, process: subprocess.Popen[bytes], count: int) -> None:
        self._server, self._process, self._count = server, process, count
        self._channels: dict[int, socket.socket] = {}  # by rank
        self._pids: dict[int, int] = {}
        self._joined = 0
        self._ended_with: int | None = None  # by the launcher, before anything ended it
        self._codes: dict[int, int] = {}  # of those that said how they ended
        self._gone: list[int] = []  # ranks, in the order in which they have ended
        self._signals: list[int] = []
        self._selector = selectors.DefaultSelector()  # epoll's tells in the order in which things happened

    def note(self, number: int) -> None:
        """Tell the first process of a signal: one stops it in order, a second at once.

        A third one ends the launcher, and so does the first until MPI has connected all.
        """
        self._signals.append(number)
        if len(self._signals) > 2 or self._joined < self._count:
            self._process.kill()
        elif 0 in self._channels:
            with suppress(OSError):  # it has ended
                self._channels[0].send(bytes([number]))

    def watch(self) -> None:
        """Until the launcher has ended, or had time to once a process is lost or all have ended, or to begin."""
        self._selector.register(self._server, selectors.EVENT_READ)
        launcher = os.pidfd_open(self._process.pid)
        self._selector.register(launcher, selectors.EVENT_READ)
        began, limit, ended = now(), math.inf, False
        while not (ended and len(self._gone) == len(self._channels)) and since(began) < limit:
            left = None if limit == math.inf else max(0.0, limit - since(began))
            for key, _ in self._selector.select(left):
                if key.fileobj is self._server:
                    self._selector.register(self._server.accept()[0], selectors.EVENT_READ, [])
                elif key.fileobj == launcher:
                    self._selector.unregister(launcher)
                    os.close(launcher)
                    ended = True  # what the processes told last is still to be read
                else:
                    self._hear(key)
            if (other := self._limit(ended)) != limit:
                began, limit = now(), other

    def _limit(self, ended: bool) -> float:
        """How many seconds things may stay as they are."""
        if self._signals and self._joined < self._count:
            return 0.0
        # a rank that has exited may wait for one that is still saving
        lost = any(rank not in self._codes for rank in self._gone)
        if ended or lost or len(self._gone) == self._count:
            return PATIENCE
        return TO_JOIN if self._channels and self._joined < self._count else math.inf

    def _hear(self, key: selectors.SelectorKey) -> None:
        """A message of a process, or its end."""
        channel: Any = key.fileobj
        try:
            told = channel.recv(HELLO.size)
        except OSError:
            told = b""
        if len(told) == HELLO.size:
            rank, self._pids[rank] = HELLO.unpack(told)
            key.data.append(rank)
            socket.send_fds(channel, [b"\0"], [1, 2] if rank == 0 else [2])
            self._channels[rank] = channel
        elif told == JOINED:
            self._joined += 1
        elif told:
            self._codes[key.data[0]] = told[0]
        else:
            self._selector.unregister(channel)
            self._gone += key.data

    def end(self) -> None:
        """End the launcher, and by closing their sockets the processes, if any is left."""
        self._ended_with = self._process.poll()
        for channel in self._channels.values():
            with suppress(OSError):
                channel.shutdown(socket.SHUT_RDWR)
            channel.close()
        self._selector.close()
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def outcome(self, said: str, run: str) -> int:
        """The exit code of all; says what a process could not, or the launcher's words if no process began.

        run: the folder of the run that the first process has begun, or "".
        """
        if failed := next(filter(None, self._codes.values()), 0):  # the first one
            return failed
        if self._signals:
            return self._codes.get(0, 128 + self._signals[0])
        lost = next((rank for rank in self._gone if rank not in self._codes), None)
        if lost is not None:
            who = f"rank {lost} of {self._count}: expected to train on, but process {self._pids[lost]}"
            if (self._ended_with or 0) < 0:  # by a signal, and then its processes had to
                who = f"mpiexec: expected to run on, but process {self._process.pid}"
            again = f"; if a checkpoint was saved, go on from it: {shell_words('npformer', 'train', '--resume', run)}"
            say_error(
                f"{who} has ended without a word, as when it is killed or memory runs out; all have ended"
                + again * bool(run)
            )
            return 1
        if len(self._codes) < self._count:
            say_error(
                f"mpiexec: expected to start {self._count} processes, got {self._joined} that MPI has connected, and "
                f"exit code {self._process.returncode}: {said}"
            )
            return 1
        return 0


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
