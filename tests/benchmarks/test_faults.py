"""Damaged files of every kind are read, or refused as documented; the benchmark notices every kind of fault.

So does that of damaged kernel files: no fault with the digest check, and faults without it. And memory after many
shapes.
"""

import collections
import json
import subprocess
import sys

import pytest

from benchmarks.faults import files, kernel_cache, memory
from benchmarks.faults.file_subjects import SUBJECTS
from benchmarks.faults.kernel_cache import KERNELS, Case, Outcome, tried
from npformer.backend.select import numba_problem

NUMBA = pytest.mark.skipif(numba_problem() is not None, reason=str(numba_problem()))

FAULTY = """if True:
    import sys, time
    from pathlib import Path
    from benchmarks.faults import file_subjects, files
    from npformer.errors import DataError

    def loop(root):
        while True:
            pass

    def reader(error):
        def read(root):
            raise error
        return read

    readers = {
        "refused": reader(DataError("no")), "undocumented": reader(ValueError("no")), "read": lambda root: None,
        "too large": lambda root: bytearray(300_000_000), "too long": loop, "silent": lambda root: object(),
    }
    file_subjects.SUBJECTS = tuple(
        file_subjects.Subject(name, lambda kept, draw: {}, read, (DataError,), exact=name == "silent")
        for name, read in readers.items()
    )
    files.SECONDS = 0.2
    for found in files.outcomes(range(len(readers)), 0, Path(sys.argv[1])):
        print(found["kind"], "|", found["outcome"])
"""


def test_two_hundred_files_are_read_or_refused(tmp_path):
    outcomes = list(files.outcomes(range(12 * len(SUBJECTS)), 0, tmp_path, limited=False))
    assert [
        f"{outcome['number']}: {outcome['text']}" for outcome in outcomes if outcome["outcome"] in files.FAULTS
    ] == []
    counts = collections.Counter((outcome["kind"], outcome["outcome"]) for outcome in outcomes)
    assert {kind for kind, _ in counts} == {subject.name for subject in SUBJECTS}
    assert sum(counts[subject.name, "refused"] for subject in SUBJECTS) > 100
    assert sum(counts[subject.name, "read"] for subject in SUBJECTS) > 10


def test_a_file_follows_from_the_seed_and_its_number(tmp_path):
    twice = 2 * len(SUBJECTS)
    for folder in ("a", "b", "c"):
        (tmp_path / folder).mkdir()
    one = [outcome["outcome"] for outcome in files.outcomes(range(twice), 3, tmp_path / "a", limited=False)]
    same = [outcome["outcome"] for outcome in files.outcomes(range(twice), 3, tmp_path / "b", limited=False)]
    other = [
        outcome["outcome"] for outcome in files.outcomes(range(twice // 2, twice), 3, tmp_path / "c", limited=False)
    ]
    assert one == same
    assert one[twice // 2 :] == other


def test_every_fault_is_seen(tmp_path):
    command = [sys.executable, "-c", FAULTY, str(tmp_path)]  # in its own process: its memory is limited
    output = subprocess.run(command, cwd=files.ROOT, check=True, capture_output=True, text=True).stdout
    assert all(len(set(line.split(" | "))) == 1 for line in output.splitlines()), output
    assert len(output.splitlines()) == 6


def test_a_crash_counts_against_the_file(monkeypatch):
    first = json.dumps({"number": 0, "kind": "model", "outcome": "read", "seconds": 0, "memory": 0, "text": ""})
    worker = f"import sys; print({first!r} * (sys.argv[-1] == '0:2')); sys.exit(7)"
    monkeypatch.setattr(files, "WORKER", ["-c", worker])
    outcomes = list(files.in_processes(2, 0))
    assert [(outcome["number"], outcome["outcome"]) for outcome in outcomes] == [(0, "read"), (1, "undocumented")]
    assert "file 1: the process that read it ended with 7" in outcomes[1]["text"]


def test_the_command(run):
    document = run("faults.files --count 34 --json").fine().document
    assert document["faults"] == []
    assert document["results"][-1]["files"] == 34


def test_a_row_for_each_kind_of_work(call):
    rows = call(memory.main, "--kernels numpy --shapes 3 --json").fine().document
    assert [(row["kernels"], row["work"], row["shapes"]) for row in rows] == [
        ("numpy", "train", 3),
        ("numpy", "decode", 3),
    ]
    assert all(row["first_bytes"] > 1e7 and row["last_bytes"] > 1e7 for row in rows)


def test_the_table_says_how_much_it_grew():
    row = {"kernels": "numpy", "work": "train", "shapes": 2000, "first_bytes": 5e7, "last_bytes": 6.5e7}
    heading, line = memory.table([row | {"growth_in_use": -1e6, "kept": 4e6}]).splitlines()
    assert heading.split() == ["kernels", "work", "shapes", "after", "100", "at", "last", "growth", "in", "use", "kept"]
    sizes = ["50.0", "MB", "65.0", "MB", "15.0", "MB", "-1.0", "MB", "4.0", "MB"]
    assert line.split() == ["numpy", "train", "2000", *sizes]


@NUMBA
def test_damage_costs_a_compilation_and_is_fatal_without_the_digest(call):
    document = call(kernel_cache.main, "--count 6 --json").fine().document
    *kinds, everything = document["results"]
    assert [row["damage"] for row in kinds] == list(kernel_cache.DAMAGES)
    assert everything == {"damage": "all", "files": 6, "noticed": 6, "right": 6, "wrong": 0, "error": 0, "crash": 0}
    ended = call(kernel_cache.main, "--count 6 --unchecked")
    assert ended.code == 1
    rows = {line[:18].strip(): line.split()[-6:] for line in ended.lines}
    assert rows["emptied"] == rows["cut short"] == ["1", "0", "0", "0", "1", "0"]  # an error


@NUMBA
def test_a_process_that_ends_is_a_crash_and_the_next_case_goes_on(tmp_path):
    cases = [Case("whole", kernel, tmp_path) for kernel in ("no.such", KERNELS[0], "no.such")]
    assert list(tried(cases, unchecked=False)) == [
        Outcome(False, "crash"),
        Outcome(True, "right"),
        Outcome(False, "crash"),
    ]
