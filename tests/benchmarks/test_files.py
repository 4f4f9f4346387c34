"""Damaged files of every kind are read, or refused as documented; the benchmark notices every kind of fault."""

import collections
import json
import subprocess
import sys

from benchmarks.faults import files
from benchmarks.faults.file_subjects import SUBJECTS

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
    found = list(files.outcomes(range(12 * len(SUBJECTS)), 0, tmp_path, limited=False))
    assert [f"{each['number']}: {each['text']}" for each in found if each["outcome"] in files.FAULTS] == []
    counts = collections.Counter((each["kind"], each["outcome"]) for each in found)
    assert {kind for kind, _ in counts} == {subject.name for subject in SUBJECTS}
    assert sum(counts[subject.name, "refused"] for subject in SUBJECTS) > 100
    assert sum(counts[subject.name, "read"] for subject in SUBJECTS) > 10


def test_a_file_follows_from_the_seed_and_its_number(tmp_path):
    twice = 2 * len(SUBJECTS)
    for folder in ("a", "b", "c"):
        (tmp_path / folder).mkdir()
    one = [each["outcome"] for each in files.outcomes(range(twice), 3, tmp_path / "a", limited=False)]
    same = [each["outcome"] for each in files.outcomes(range(twice), 3, tmp_path / "b", limited=False)]
    other = [each["outcome"] for each in files.outcomes(range(twice // 2, twice), 3, tmp_path / "c", limited=False)]
    assert one == same
    assert one[twice // 2 :] == other


def test_every_fault_is_seen(tmp_path):
    command = [sys.executable, "-c", FAULTY, str(tmp_path)]  # in its own process: its memory is limited
    said = subprocess.run(command, cwd=files.ROOT, check=True, capture_output=True, text=True).stdout
    assert all(len(set(line.split(" | "))) == 1 for line in said.splitlines()), said
    assert len(said.splitlines()) == 6


def test_a_crash_counts_against_the_file(monkeypatch):
    first = json.dumps({"number": 0, "kind": "model", "outcome": "read", "seconds": 0, "memory": 0, "text": ""})
    worker = f"import sys; print({first!r} * (sys.argv[-1] == '0:2')); sys.exit(7)"
    monkeypatch.setattr(files, "WORKER", ["-c", worker])
    found = list(files.in_processes(2, 0))
    assert [(each["number"], each["outcome"]) for each in found] == [(0, "read"), (1, "undocumented")]
    assert "file 1: the process that read it ended with 7" in found[1]["text"]


def test_the_command(run):
    document = run("faults.files --count 34 --json").fine().document
    assert document["faults"] == []
    assert document["results"][-1]["files"] == 34
