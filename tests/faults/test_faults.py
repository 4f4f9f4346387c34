"""Damaged files of every kind are read, or refused as documented; and what the programs that make faults count."""

import collections
import subprocess
import sys

import pytest

from benchmarks.harness import ROOT
from npformer.backend.select import numba_problem
from tests.faults import files, interrupts, kernel_cache, memory
from tests.faults.kernel_cache import DAMAGES
from tests.faults.subjects import SUBJECTS

NUMBA = pytest.mark.skipif(numba_problem() is not None, reason=str(numba_problem()))


def test_two_hundred_files_are_read_or_refused():
    counts = collections.Counter()
    for number in range(12 * len(SUBJECTS)):
        one = files.outcome(number, limited=False)
        assert one["outcome"] not in files.FAULTS, f"{number}: {one['text']}"
        assert number % 50 or one["outcome"] == files.outcome(number, limited=False)["outcome"], "it follows from it"
        counts[one["outcome"]] += 1
    assert counts["refused"] > 100
    assert counts["read"] > 10


def test_the_command():
    command = [sys.executable, "-m", "tests.faults", "files", "--count", "18"]
    lines = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    assert lines[-1].split()[:2] == ["all", "18"]
    assert lines[-1].split()[4:8] == ["0"] * 4


def test_interrupts_are_counted():
    _, rows, harmed = interrupts.injected(2, ["plain"])
    assert rows == [["plain", presses, 2, 0, 0, 0] for presses in (1, 2)]
    assert not harmed


def test_a_row_for_each_kind_of_work():
    head, rows, _ = memory.injected(3, ["numpy"])
    assert [row[:3] for row in rows] == [["numpy", "train", 3], ["numpy", "decode", 3]]
    assert all(len(row) == len(head) and float(row[3].split()[0]) > 10 for row in rows)


@NUMBA
def test_damage_costs_a_compilation():
    _, rows, harmed = kernel_cache.injected(2, None)
    assert [row[0] for row in rows] == [*DAMAGES, "all"]
    assert rows[-1] == ["all", 2, 2, 2, 0, 0, 0]
    assert not harmed
