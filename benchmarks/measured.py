"""Commands whose output appears on the pages: each runs as a reader would run it, and its output is kept in a file.

    python -m benchmarks.measured --list               the names, and the command behind each
    python -m benchmarks.measured reverse gradcheck    run these, one after the other
    python -m benchmarks.pages                         then write the results into the pages

The file is benchmarks/results/NAME.json: command, machine, date, commit, seconds, the share of the cores that other
processes used, and the last lines that the command printed.

Exit code: 0 all commands ended with 0, 1 a command did not (its output is not kept), 2 bad input.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from benchmarks import machine, report
from benchmarks.harness import core_seconds
from benchmarks.options import bare_parser
from npformer.io.seconds import now, since

RESULTS = Path(__file__).parent / "results"
KEPT = 60  # lines of output


class Command(NamedTuple):
    """One command to measure."""

    what: str  # the subject, for the page
    words: str  # as typed
    shows: str = ""  # a pattern of the lines that hold the result; "": the whole output


HELD_OUT = r"^held-out (?!examples)"
COMMANDS = {
    "reverse": Command("reverse words, compiled kernels", "npformer train reverse", HELD_OUT),
    "reverse-numpy": Command("reverse words, NumPy alone", "npformer train reverse --set kernels=numpy", HELD_OUT),
    "dates-file": Command("dates to ISO, from a file", "npformer train pairs --data examples/data/dates.tsv", HELD_OUT),
    "gradcheck": Command("every gradient", "npformer gradcheck", r"^all .* are right"),
    "gradcheck-random": Command(
        "random draws, no false alarm", "npformer gradcheck --random 200 --seed 1", r"^all .* are right"
    ),
    "certify": Command("invariants", "npformer certify", r"^all .* hold"),
    "tests": Command("the tests, a sample", "python -m pytest -n 2 --dist worksteal", r"passed"),
    "tests-smoke": Command("the tests, a first look", "python -m pytest -m smoke", r"passed"),
    "import": Command("import, in µs: own and in all", "python -X importtime -c 'import npformer'", r" npformer$"),
    "numbers": Command("English numbers to French", "npformer train numbers", HELD_OUT),
    "dates": Command("dates of 39 locales to ISO", "npformer train dates", HELD_OUT),
    "scan": Command("SCAN, simple split", "npformer train scan", HELD_OUT),
    "scan-length": Command("SCAN, longer commands", "npformer train scan --set split=length", HELD_OUT),
    "scan-jump": Command("SCAN, a new verb", "npformer train scan --set split=jump", HELD_OUT),
    "language": Command("the language of a date", "npformer train language", HELD_OUT),
    "tags": Command("the parts of a date", "npformer train tags", HELD_OUT),
    "lm": Command("Python's manual, the next character", "npformer train lm", HELD_OUT),
    "mlm": Command("Python's manual, hidden pieces", "npformer train mlm", HELD_OUT),
    "site": Command("the site, in a new clone", "python -m docs.site", r"index\.html$"),
    "mutants": Command("Single mistakes in every backward", "npformer museum mutants"),
    "trace-page": Command("The page of a trace in Chromium", "python -m tests.see.page.trace_page"),
    "faults-files": Command("Damaged files", "python -m tests.faults files"),
    "faults-interrupts": Command("Ctrl-C within a step", "python -m tests.faults interrupts"),
    "faults-kernels": Command("Damaged files of compiled kernels", "python -m tests.faults kernel_cache"),
    "faults-memory": Command("Memory after random shapes", "python -m tests.faults memory"),
} | {
    f"experiment-{file}": Command(
        what, f"python -m examples.experiments.{file.replace('-', '_')} --out docs/pictures/experiment-{file}.svg"
    )
    for file, what in (
        ("cost-and-length", "Cost and length"),
        ("step-time", "Recurrent and parallel steps"),
        ("first-token", "Gradient that reaches the first token"),
        ("norms", "LayerNorm and BatchNorm under padding"),
        ("dropout-place", "Dropout before or after the residual sum"),
        ("norm-order", "Post-LN and pre-LN in depth"),
        ("gradient-sizes", "The size of gradients"),
        ("initialisation", "Initial values of embeddings and output projection"),
        ("heads", "What heads look at"),
        ("embeddings", "Neighbours before and after training"),
        ("beside-pytorch", "A run beside PyTorch's"),
    )
}


def main():
    """Run the named commands; returns the exit code."""
    parser = bare_parser("measured", __doc__.partition("\n")[0], json=False)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of --list")
    parser.add_argument("--list", action="store_true", help="list the names and stop")
    args = parser.parse_args()
    if args.list or not args.names:
        print(report.table(("name", "command"), [[name, each.words] for name, each in COMMANDS.items()]))
        return 0
    unknown = [name for name in args.names if name not in COMMANDS]
    if unknown:
        parser.error(f"expected names from --list, got {', '.join(unknown)}")
    return max(kept(name, RESULTS / f"{name}.json") for name in args.names)


def kept(name, path):
    """Run one command and keep its output. Returns 0, or 1 if it failed."""
    print(f"{name}: {COMMANDS[name].words}", flush=True)
    document = measured(name)
    if document["exit_code"]:
        print("\n".join([*document["output"], f"measured: {name} ended with {document['exit_code']}"]), file=sys.stderr)
        return 1
    report.keep(document, path)
    print("\n".join([*shown(document), f"in {document['seconds']:.0f} s, kept in {path.name}"]), flush=True)
    return 0


def measured(name):
    """Run one command in the checkout. Returns its document, with standard output and errors as one text."""
    about = machine.describe([], "numpy", ["float32"]) | {"command": COMMANDS[name].words}
    began, before, own_before = now(), core_seconds(), own_seconds()
    ended = subprocess.run(
        runnable(COMMANDS[name].words), cwd=machine.ROOT, env=os.environ | {"PYTHONUNBUFFERED": "1"}, text=True,
        encoding="utf-8", errors="replace", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    busy, total, own = (after - b for after, b in zip(core_seconds(), before, strict=True))
    output = [line.rstrip() for line in ended.stdout.splitlines() if line.strip()][-KEPT:]
    return {
        "benchmark": "command", "name": name, "machine": about, "seconds": since(began), "exit_code": ended.returncode,
        "others_share": (busy - own - own_seconds() + own_before) / total if total else None, "output": output,
    }  # fmt: skip


def shown(document):
    """The lines of a document that hold the result."""
    pattern = COMMANDS[document["name"]].shows
    return (
        [line.strip("= ") for line in document["output"] if re.search(pattern, line)] if pattern else document["output"]
    )


def runnable(words):
    """The command, run by this interpreter whatever the PATH says."""
    program, *rest = shlex.split(words)
    return [sys.executable, *(["-m", "npformer"] if program == "npformer" else []), *rest]


def own_seconds():
    """Processor time in seconds of finished child processes."""
    spent = os.times()
    return spent.children_user + spent.children_system


if __name__ == "__main__":
    raise SystemExit(main())
