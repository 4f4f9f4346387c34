"""Ranks that are processes, by MPI: what a launcher started here, and the communicator of one of its processes.

Requests are of messages from one rank to another, which are polled. The bytes of an exchange are those of a ring. With
a GPU its arrays go by NCCL (``cupy/nccl.py``), and MPI only makes the ranks known to each other.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple
from warnings import catch_warnings

from npformer.engine.communicator import Communicator, Request
from npformer.errors import ConfigError, RankLostError
from npformer.extras import install
from npformer.typing import Array

#: What launchers tell a process: how many there are, and which one it is. The first that tells of several counts, since
#: MPICH's launcher may itself be started by Slurm's, and Slurm's may tell of one where Open MPI's starts several.
LAUNCHERS = (
    ("PMI_SIZE", "PMI_RANK"),
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),
    ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID"),
)
CARDS = "CUDA_VISIBLE_DEVICES"


class RankInfo(NamedTuple):
    """Which of how many processes a launcher says that this one is."""

    rank: int
    size: int


def launched() -> RankInfo | None:
    """This process's place; None if no launcher started it, or it alone."""
    for size, rank in LAUNCHERS:
        count = os.environ.get(size, "")
        if count.isdecimal() and int(count) > 1:
            return RankInfo(int(os.environ.get(rank, "0")), int(count))
    return None


class _Messages(Request):
    """The request of some messages."""

    def __init__(self, mpi: Any, messages: list[Any]) -> None:
        self._mpi, self._messages = mpi, messages

    def test(self) -> bool:
        """Whether all were sent and received."""
        try:
            return bool(self._mpi.Request.Testall(self._messages))
        except self._mpi.Exception as error:
            raise _lost(error) from error


class MpiRank(Communicator):
    """The communicator of a process of MPI; arrays are the host's."""

    def __init__(self, mpi: Any) -> None:
        self._mpi, self.world = mpi, mpi.COMM_WORLD
        self.rank, self.size = int(self.world.rank), int(self.world.size)

    def messages(self, send: dict[int, Array], receive: dict[int, Array]) -> Request:
        """As the base class says."""
        try:
            begun = [self.world.Irecv(x, rank) for rank, x in receive.items()]
            return _Messages(self._mpi, begun + [self.world.Isend(x, rank) for rank, x in send.items()])
        except self._mpi.Exception as error:
            raise _lost(error) from error

    def abort(self, code: int) -> None:
        """End all processes with this exit code."""
        self.world.Abort(code)
        os._exit(code)  # MPICH returns if a process was killed


def connect(info: RankInfo) -> MpiRank:
    """The communicator of this process, which sees one GPU if there are several. Raises ConfigError on every rank."""
    try:
        with catch_warnings(action="ignore", category=RuntimeWarning):  # of another launcher, which is told below
            from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # the latter, if there is no library of MPI
        raise _refused(
            f"processes: expected mpi4py and a library of MPI, got {type(error).__name__}: {error}; {install('mpi')}"
        ) from error
    if info.size != MPI.COMM_WORLD.size:
        library = " ".join(MPI.Get_library_version().split("\n")[0].strip("\x00").split())
        raise _refused(
            f"processes: expected {info.size}, as the launcher started, got {MPI.COMM_WORLD.size} that know of each "
            f"other: mpi4py uses another MPI than the launcher's, {library}; start with that one's mpiexec, or by "
            "--processes"
        )
    here = MPI.COMM_WORLD.Split_type(MPI.COMM_TYPE_SHARED)
    if here.size > 1:
        _take_card(here.rank)
    return MpiRank(MPI)


def _take_card(number: int) -> None:
    """Let this process see one GPU, the one of its number among those of its machine; CuPy is not imported yet."""
    cards = os.environ.get(CARDS)
    if cards is None:
        os.environ[CARDS] = str(number)
    elif "," in cards:
        os.environ[CARDS] = [*cards.split(","), *[""] * number][number]


def _lost(error: Exception) -> RankLostError:
    return RankLostError(f"an exchange between ranks: expected to end, got {error}")


def _refused(message: str) -> ConfigError:
    error = ConfigError(message)
    error.raised_on_every_rank = True
    return error
