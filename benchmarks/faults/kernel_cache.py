"""Damaged files of compiled kernels: does any crash the process or give a wrong result?

Two small kernels are compiled and cached. Then one of their files is damaged, in a separate folder, and a process
loads the kernel from there, or recompiles it, and runs it. This is repeated for every kind of damage that a failing
or full disk, a power cut or a wrong copy may do. A process that ends before it reports its outcome, or is silent for
a minute, counts as a crash.

--unchecked skips the digest check, to show that this program notices the damage.
"""

import json
import random
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from benchmarks import report
from benchmarks.options import at_least_1, bare_parser
from npformer.backend.select import numba_problem

EXAMPLES = """examples:
  python -m benchmarks.faults.kernel_cache                      500 damaged files, a few minutes
  python -m benchmarks.faults.kernel_cache --count 60 --json
  python -m benchmarks.faults.kernel_cache --count 60 --unchecked      what happens without the digest

exit code: 0 no wrong result, no crash and no unnoticed damage; 1 at least one of them; 2 it cannot run"""

KERNELS = ("add_and_compare.compare", "add_and_compare.add")
BATCH = 25  # damaged files that one process tries
PATIENCE = 120.0  # seconds without output; compiling a kernel takes one or two


class Case(NamedTuple):
    """One damaged file."""

    kind: str
    kernel: str
    folder: Path


class Outcome(NamedTuple):
    """The outcome of one damaged file."""

    noticed: bool  # the file was not used
    result: str  # "right", "wrong", "error" or "crash"


def flipped(data, other, rng):
    """The file with one bit flipped."""
    changed = bytearray(data)
    changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def zeroed(data, other, rng):
    """The file with a block of up to 4096 bytes that was never written."""
    start, size = rng.randrange(len(data)), rng.randrange(1, 4097)
    return data[:start] + bytes(len(data[start : start + size])) + data[start + size :]


#: Each makes a file from its bytes and those of the other kernel's file.
DAMAGES = {
    "a bit flipped": flipped,
    "cut short": lambda data, other, rng: data[: rng.randrange(1, len(data))],
    "a block of zeros": zeroed,
    "another kernel's": lambda data, other, rng: other,
    "something appended": lambda data, other, rng: data + rng.randbytes(rng.randrange(1, 4097)),
    "emptied": lambda data, other, rng: b"",
}


def main():
    """Run the command; returns its exit code."""
    parser = bare_parser("faults.kernel_cache", "Damage files of compiled kernels.", EXAMPLES)
    parser.add_argument("--count", type=at_least_1, default=500, help="damaged files (default: 500)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the damage (default: 0)")
    parser.add_argument("--unchecked", action="store_true", help="skip the digest check")
    args = parser.parse_args()
    if problem := numba_problem():
        parser.error(problem)
    with tempfile.TemporaryDirectory(prefix="kernel-cache-") as folder:
        measured = measure(Path(folder), args.count, args.seed, args.unchecked)
    rows = summary(measured)
    bad = sum(not (outcome.noticed and outcome.result == "right") for _, outcome in measured)
    if args.json:
        print(json.dumps({"benchmark": "kernel_cache", "count": args.count, "seed": args.seed,
                          "checked": not args.unchecked, "results": rows}))  # fmt: skip
    else:
        print(report.table(list(rows[0]), [[str(value) for value in row.values()] for row in rows]))
    return 1 if bad else 0


def summary(tallies):
    """A row for each kind of damage, and one for all."""
    rows = []
    for kind in (*DAMAGES, "all"):
        outcomes = [outcome for case, outcome in tallies if kind in (case.kind, "all")]
        results = Counter(outcome.result for outcome in outcomes)
        rows.append(
            {"damage": kind, "files": len(outcomes), "noticed": sum(each.noticed for each in outcomes)}
            | {result: results[result] for result in ("right", "wrong", "error", "crash")}
        )
    return rows


def measure(folder, count, seed, unchecked=False):
    """Try count damaged files. Returns the outcome of each."""
    whole = folder / "whole"
    for noticed in (True, False):  # compiled, then loaded
        outcomes = list(tried([Case("whole", kernel, whole) for kernel in KERNELS], unchecked))
        if outcomes != [Outcome(noticed, "right")] * len(KERNELS):
            raise RuntimeError(f"expected kernels to be compiled, kept and found again, got {outcomes}")
    cases = list(damaged(folder, whole / "npformer", count, random.Random(seed)))
    batches = [cases[start : start + BATCH] for start in range(0, count, BATCH)]
    return [pair for batch in batches for pair in zip(batch, tried(batch, unchecked), strict=True)]


def damaged(folder, whole, count, rng):
    """Folders with one damaged file each, every kind of damage in turn."""
    files = {kernel: next(whole.glob(f"{kernel}-*")) for kernel in KERNELS}
    for i in range(count):
        kind, kernel = list(DAMAGES)[i % len(DAMAGES)], KERNELS[i // len(DAMAGES) % 2]
        data = original = files[kernel].read_bytes()
        other = files[KERNELS[1 - KERNELS.index(kernel)]].read_bytes()
        while data == original:  # the block may have been zeros before
            data = DAMAGES[kind](original, other, rng)
        place = folder / str(i) / "npformer"
        place.mkdir(parents=True, mode=0o700)
        (place / files[kernel].name).write_bytes(data)
        yield Case(kind, kernel, place.parent)


def tried(cases, unchecked):
    """The outcome of each file. After a crash, a new process continues with the next file."""
    rest = list(cases)
    while rest:
        kernels_and_folders = [[case.kernel, str(case.folder)] for case in rest]
        command = [
            sys.executable,
            "-m",
            "benchmarks.faults.kernel_cache_child",
            json.dumps([kernels_and_folders, unchecked]),
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE * len(rest))
            lines = done.stdout.splitlines()
        except subprocess.TimeoutExpired as late:
            lines = (late.stdout or b"").decode().splitlines()
        for line in lines[: len(rest)]:
            yield Outcome(*json.loads(line))
        rest = rest[len(lines) :]
        if rest:
            yield Outcome(False, "crash")
            rest = rest[1:]


if __name__ == "__main__":
    sys.exit(main())
