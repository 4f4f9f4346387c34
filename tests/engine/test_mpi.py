"""The communicator of MPI on two and four real processes; and what launchers tell of themselves."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from npformer.engine import mpi
from npformer.engine.mpi import CARDS, LAUNCHERS, RankInfo, launched
from npformer.errors import RankLostError
from npformer.run.processes import starting
from tests.mpi import mpi_problem

#: Each rank prints what has arrived: lengths differ, and one is 0.
PROGRAM = """
import json, sys
import numpy as np
from npformer.engine.mpi import connect, launched
ranks = connect(launched())
size, rank = ranks.size, ranks.rank
lengths = [3, 0, 1, 2][:size]
receive = [np.full(lengths[rank], np.nan) for _ in range(size)]
ranks.all_to_all([100.0 * rank + 10 * q + np.arange(n) for q, n in enumerate(lengths)], receive).wait()
whole = np.full(sum(lengths), np.nan, np.float32)
ends = np.cumsum(lengths)
views = [whole[end - n : end] for end, n in zip(ends, lengths)]
views[rank][...] = rank
gathered = ranks.all_gather(views[rank], views)
gathered.wait()
told = json.dumps([rank, [x.tolist() for x in receive], whole.tolist(), ranks.gather_json(rank)])
sys.stdout.write(told + "\\n")
"""


@pytest.mark.skipif(mpi_problem() is not None, reason=str(mpi_problem()))
@pytest.mark.parametrize("size", [2, 4])
def test_what_arrives_where(size):
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    command = [*starting(size), sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=600)
    lengths = [3, 0, 1, 2][:size]
    whole = [rank for rank, n in enumerate(lengths) for _ in range(n)]
    assert sorted(json.loads(line) for line in done.stdout.splitlines()) == [
        [rank, [[100 * q + 10 * rank + i for i in range(lengths[rank])] for q in range(size)], whole, list(range(size))]
        for rank in range(size)
    ]


@pytest.fixture
def alone(monkeypatch):
    """No launcher, and no choice of GPUs."""
    for name in (*(name for names in LAUNCHERS for name in names), CARDS):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.mark.parametrize(
    ("variables", "place"),
    [
        *(({size: 4, rank: 3}, RankInfo(3, 4)) for size, rank in LAUNCHERS),
        *(({size: 1, rank: 0}, None) for size, rank in LAUNCHERS),
        # Slurm counts machines where it starts another launcher; and who tells of one process does not hide another
        ({"SLURM_STEP_NUM_TASKS": 2, "SLURM_PROCID": 1, "PMI_SIZE": 8, "PMI_RANK": 5}, RankInfo(5, 8)),
        ({"PMI_SIZE": 1, "OMPI_COMM_WORLD_SIZE": 2, "OMPI_COMM_WORLD_RANK": 1}, RankInfo(1, 2)),
        ({}, None),
    ],
)
def test_a_launchers_count_is_known(variables, place, alone):
    for name, value in variables.items():
        alone.setenv(name, str(value))
    assert launched() == place


@pytest.mark.parametrize(
    ("given", "number", "seen"), [(None, 1, "1"), ("4,6", 1, "6"), ("4,6", 2, ""), ("5", 1, "5"), ("", 0, "")]
)
def test_each_process_sees_one_gpu(given, number, seen, alone):
    if given is not None:
        alone.setenv(CARDS, given)
    else:
        alone.setenv(CARDS, "")
        alone.delenv(CARDS)
    mpi._take_card(number)
    assert os.environ[CARDS] == seen


@pytest.mark.parametrize("failing", ["Irecv", "Isend", "Testall"])
def test_a_rank_that_is_lost_is_told_wherever_mpi_notices_it(failing):
    def fails(*arguments):
        raise OSError("no such process")

    calls = {name: fails if name == failing else lambda *arguments: None for name in ("Irecv", "Isend", "Testall")}
    request = SimpleNamespace(Testall=calls["Testall"])
    world = SimpleNamespace(rank=0, size=2, Irecv=calls["Irecv"], Isend=calls["Isend"])
    ranks = mpi.MpiRank(SimpleNamespace(COMM_WORLD=world, Request=request, Exception=OSError))
    with pytest.raises(RankLostError, match="between ranks: expected to end, got no such process"):
        ranks.all_gather(np.zeros(1), [np.zeros(1), np.zeros(1)]).wait()


def test_abort_ends_this_process_even_where_mpi_returns(monkeypatch):
    ends = []
    world = SimpleNamespace(rank=0, size=2, Abort=lambda code: ends.append(("all", code)))
    monkeypatch.setattr(mpi.os, "_exit", lambda code: ends.append(("this", code)))
    mpi.MpiRank(SimpleNamespace(COMM_WORLD=world)).abort(3)
    assert ends == [("all", 3), ("this", 3)]
