"""Damaged and malicious files: each must be read correctly or refused with a documented error.

A file's number determines it. Mutations flip bits, lose bytes, insert lines of 1 MB, make numbers
huge, nest brackets and change types. Where a check sum would reveal the damage, it is often recomputed, as an attacker
could. Separate processes read the files, many files each. A file counts as

    undocumented    if its reader raised an error that it does not document
    silent          if changed content was read although a check sum should reveal the change
    too large       if reading took more than 200 MB of additional memory
    too long        if reading took more than 2 s of processor time
"""

import contextlib
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from functools import cache
from pathlib import Path

from benchmarks.harness import memory_figure
from benchmarks.survivors import answers
from tests.faults.subjects import SUBJECTS, make

MEGABYTE = 1_000_000
MEMORY, SECONDS = 200 * MEGABYTE, 2.0
FAULTS = ("undocumented", "silent", "too large", "too long")
OUTCOMES = ("read", "refused", *FAULTS)


class TooLongError(BaseException):
    """A file took too long; no reader catches this."""


@cache
def folder():
    """(the folder in which files are damaged, what they are, what is read there); until this process ends."""
    root = Path(tempfile.mkdtemp(prefix="faults-"))
    files = make(root)
    return root, files, {subject.name: subject.read(root) for subject in SUBJECTS if subject.exact}


def outcome(number, limited=True):
    """What comes of the file with this number. limited: with limits on resources."""
    (root, files, known), subject = folder(), SUBJECTS[number % len(SUBJECTS)]
    changed = subject.change(files, random.Random(f"0:{number}"))
    for path, data in changed.items():
        (root / path).write_bytes(data)
    found, text, before, began = "read", "", memory_figure("VmRSS"), time.process_time()
    try:
        with limits() if limited else contextlib.nullcontext():
            if subject.read(root) != known.get(subject.name) and subject.exact:
                found = "silent"
    except subject.documented:
        found = "refused"
    except MemoryError as error:
        found, text = "too large", repr(error)
    except (Exception, TooLongError) as error:
        found, text = "too long" if isinstance(error, TooLongError) else "undocumented", traceback.format_exc()
    seconds, memory = time.process_time() - began, max(0, memory_figure("VmHWM") - before)
    for path in {*changed, "run/metrics.jsonl"}:
        (root / path).write_bytes(files[path])
    found = "too large" if limited and memory > MEMORY else found
    return {"outcome": found, "seconds": seconds, "memory": memory, "text": text[-4000:]}


@contextlib.contextmanager
def limits():
    """Limit additional address space and processor time; start counting peak memory."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    if now := memory_figure("VmSize"):
        resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, hard))
    old = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, old)
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def ring(number, frame):
    raise TooLongError


def asked(number):
    """The outcome, in a process of its own."""
    sys.modules["numba"] = None  # a damaged config.toml must not begin to compile
    warnings.simplefilter("error")
    return outcome(number)


def in_processes(count):
    """The outcome of each file, with its number and kind; a crash or a hang counts against the file."""
    one_thread = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    said = answers("tests.faults.files:asked", [[number] for number in range(count)], 60, 1000, one_thread)
    for number, answer in enumerate(said):
        if "code" in answer:
            text = f"the process that read it ended with {answer['code']}"
            answer = {"outcome": "undocumented", "seconds": 0, "memory": 0, "text": text}
        yield {"number": number, "kind": SUBJECTS[number % len(SUBJECTS)].name} | answer


def injected(count, kernels):
    """The table: for each kind of file and for all the counts of outcomes, peak memory and longest time."""
    outcomes, rows = list(in_processes(count)), []
    for kind in [*dict.fromkeys(one["kind"] for one in outcomes), "all"]:
        those = [one for one in outcomes if kind in (one["kind"], "all")]
        counts = (f"{sum(one['outcome'] == name for one in those):,}" for name in OUTCOMES)
        memory, seconds = (max(one[name] for one in those) for name in ("memory", "seconds"))
        rows.append([kind, f"{len(those):,}", *counts, f"{memory / MEGABYTE:.1f}", f"{seconds:.2f}"])
    faults = [one for one in outcomes if one["outcome"] in FAULTS]
    for one in faults[:10]:
        last = one["text"].strip().rpartition("\n")[2][:200]
        print(f"file {one['number']}, {one['kind']}: {one['outcome']}: {last}", file=sys.stderr)
    return ("file", "files", *OUTCOMES, "worst MB", "worst s"), rows, bool(faults)
