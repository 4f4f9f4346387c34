"""Damaged and malicious files: each must be read correctly or refused with a documented error.

    python -m benchmarks.faults.files                   10,000 mutated files, of every kind that npformer reads
    python -m benchmarks.faults.files --count 500 --seed 7 --json
    python -m benchmarks.faults.files --only 1234       one file, with its traceback

The seed and a file's number determine the file. Mutations flip bits, lose bytes, insert lines of 1 MB, make numbers
huge, nest brackets and change types. Where a check sum would reveal the damage, it is often recomputed, as an attacker
could. Separate processes read the files, many files each. A file counts as

    undocumented    if its reader raised an error that it does not document
    silent          if changed content was read although a check sum should reveal the change
    too large       if reading took more than 200 MB of additional memory
    too long        if reading took more than 2 s of processor time

The exit code is 1 if any file counts as one of these.
"""

import argparse
import contextlib
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

from benchmarks import report
from benchmarks.contender import memory_figure
from benchmarks.options import at_least_1, bare_parser
from benchmarks.turns import ROOT

MEGABYTE = 1_000_000
MEMORY, SECONDS = 200 * MEGABYTE, 2.0
GUARD = 60.0  # seconds of wall time without an answer: the process hangs
COLUMNS = ("file", "files", "read", "refused", "undocumented", "silent", "too large", "too long", "worst MB", "worst s")
FAULTS = ("undocumented", "silent", "too large", "too long")
WORKER = ["-m", "benchmarks.faults.files"]


class TooLongError(BaseException):
    """A file took too long; no reader catches this."""


def outcomes(numbers, seed, root, limited=True):
    """Read the files with these numbers in the folder root: the outcome of each. limited: with limits on resources."""
    from benchmarks.faults.file_subjects import SUBJECTS, make

    files = make(root)
    known = {subject.name: subject.read(root) if subject.exact else None for subject in SUBJECTS}
    for number in numbers:
        draw, subject = random.Random(f"{seed}:{number}"), SUBJECTS[number % len(SUBJECTS)]
        changed = subject.change(files, draw)
        for path, data in changed.items():
            (root / path).write_bytes(data)
        outcome = _outcome(subject, root, known[subject.name], limited)
        for path in {*changed, "run/metrics.jsonl"}:
            (root / path).write_bytes(files[path])
        yield {"number": number, "kind": subject.name} | outcome


def _outcome(subject, root, known, limited):
    outcome, text, before, start = "read", "", memory_figure("VmRSS"), time.process_time()
    try:
        with _limits() if limited else contextlib.nullcontext():
            if subject.read(root) != known and subject.exact:
                outcome = "silent"
    except subject.documented:
        outcome = "refused"
    except MemoryError as error:
        outcome, text = "too large", repr(error)
    except TooLongError:
        outcome, text = "too long", traceback.format_exc()
    except Exception:
        outcome, text = "undocumented", traceback.format_exc()
    seconds, memory = time.process_time() - start, max(0, memory_figure("VmHWM") - before)
    if limited and memory > MEMORY:
        outcome = "too large"
    return {"outcome": outcome, "seconds": seconds, "memory": memory, "text": text[-4000:]}


@contextlib.contextmanager
def _limits():
    """Limit additional address space and processor time; start counting peak memory."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    if now := memory_figure("VmSize"):
        resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, hard))
    old = signal.signal(signal.SIGPROF, _ring)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, old)
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def _ring(number, frame):
    raise TooLongError


def in_processes(count, seed, each=1000):
    """The outcome of each file, read by processes of ``each`` files; a crash or a hang counts against the file."""
    number = 0
    while number < count:
        stop = min(count, number + each)
        command = [sys.executable, *WORKER, "--seed", str(seed), "--range", f"{number}:{stop}"]
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as child:
            for line in child.stdout:
                document = json.loads(line)
                number = document["number"] + 1
                yield document
        if number < stop:
            from benchmarks.faults.file_subjects import SUBJECTS

            text = f"file {number}: the process that read it ended with {child.returncode}"
            kind = SUBJECTS[number % len(SUBJECTS)].name
            yield {"number": number, "kind": kind, "outcome": "undocumented", "seconds": 0, "memory": 0, "text": text}
            number += 1


def _work(numbers, seed):
    """The child process: print one line of JSON for each file."""
    sys.modules["numba"] = None  # a damaged config.toml must not begin to compile
    warnings.simplefilter("error")
    signal.alarm(int(GUARD))
    with tempfile.TemporaryDirectory() as folder:
        for outcome in outcomes(numbers, seed, Path(folder)):
            print(json.dumps(outcome), flush=True)
            signal.alarm(int(GUARD))


def summary(outcomes):
    """For each kind of file and for all: counts of outcomes, peak memory and longest time."""
    rows = []
    for kind in [*dict.fromkeys(outcome["kind"] for outcome in outcomes), "all"]:
        those = [outcome for outcome in outcomes if kind in (outcome["kind"], "all")]
        counts = {name: sum(each["outcome"] == name for each in those) for name in ("read", "refused", *FAULTS)}
        worst = {name: max(each[name] for each in those) for name in ("memory", "seconds")}
        rows.append({"kind": kind, "files": len(those)} | counts | worst)
    return rows


def main():
    """The command; see --help."""
    parser = bare_parser("faults.files", __doc__)
    parser.add_argument("--count", type=at_least_1, default=10_000, help="how many files (default: 10000)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the mutations (default: 0)")
    parser.add_argument("--only", type=int, metavar="N", help="read file N alone, and show its outcome")
    parser.add_argument("--range", help=argparse.SUPPRESS)  # internal: the child process's arguments
    args = parser.parse_args()
    if args.range:
        _work(range(*map(int, args.range.split(":"))), args.seed)
        return 0
    if args.only is not None:
        with tempfile.TemporaryDirectory() as folder:
            [one] = outcomes([args.only], args.seed, Path(folder))
        print(json.dumps(one | {"text": ""}), one["text"], sep="\n")
        return int(one["outcome"] in FAULTS)
    return _reported(args)


def _reported(args):
    outcomes = list(in_processes(args.count, args.seed))
    rows, faults = summary(outcomes), [outcome for outcome in outcomes if outcome["outcome"] in FAULTS]
    cells = [
        [row["kind"], *(f"{row[name]:,}" for name in ("files", "read", "refused", *FAULTS)),
         f"{row['memory'] / MEGABYTE:.1f}", f"{row['seconds']:.2f}"]
        for row in rows
    ]  # fmt: skip
    report.say(report.table(COLUMNS, cells), args.json)
    for fault in faults[:10]:
        last = fault["text"].strip().splitlines()[-1:] or [""]
        print(f"file {fault['number']}, {fault['kind']}: {fault['outcome']}: {last[0][:200]}", file=sys.stderr)
    if args.json:
        print(json.dumps({"benchmark": "files", "seed": args.seed, "results": rows, "faults": faults}))
    return int(bool(faults))


if __name__ == "__main__":
    raise SystemExit(main())
