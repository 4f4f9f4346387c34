"""Gradient checkers side by side, on the same right and wrong pairs.

    python -m benchmarks.checkers --save benchmarks/results/checkers.json
    python -m benchmarks.checkers --checkers jax,autograd --lists foreign --only softmax

Needs PyTorch, JAX and HIPS autograd (pip install torch jax autograd); a checker that is not installed is left out, and
named. Each runs in a process of its own, in the form that it takes: a torch.autograd.Function around the pair, a
custom_vjp that calls back, a primitive with defvjp. All options are the defaults, in reverse mode. The two comparisons
get the gradients of the right backward in float64, for a random upstream gradient; the others get no reference, but
npformer for kernels in few digits. What is in the file of --save already is not asked again, unless --again is given,
so an interrupted run goes on.

Exit code: 0 a report was made, 2 no report can be made.
"""

import argparse
import importlib.metadata
import json
import subprocess
import sys
import time

from benchmarks import machine, report
from benchmarks.checkers.checks import CHECKERS, versions
from benchmarks.checkers.listed import LISTS, items
from benchmarks.checkers.table import COLUMNS, cells, packed, unpacked
from benchmarks.options import UsageError, add_save, bare_parser, listed

KEPT_EVERY = 20.0  # seconds between two writings of the file


def main(argv=None):
    """Parse, ask every checker, report."""
    parser = bare_parser("checkers", __doc__)
    parser.add_argument("--checkers", default=",".join(CHECKERS), metavar="NAME,…", help=f"of {', '.join(CHECKERS)}")
    parser.add_argument("--lists", default=",".join(LISTS), metavar="NAME,…", help=f"of {', '.join(LISTS)}")
    parser.add_argument("--only", default="", metavar="TEXT", help="pairs whose name contains TEXT")
    parser.add_argument("--again", action="store_true", help="ask what the file of --save has, too")
    add_save(parser)
    args = parser.parse_args(argv)
    try:
        names, lists = listed("--checkers", args.checkers, CHECKERS), listed("--lists", args.lists, LISTS)
    except UsageError as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 2
    chosen = [i for i, item in enumerate(items()) if item.list in lists and args.only.lower() in item.name.lower()]
    if not chosen:
        print(f"benchmarks: --only: expected a part of a pair's name, got {args.only!r}", file=sys.stderr)
        return 2
    table = Table(args)
    for name in names:
        try:
            table.versions[name] = versions(name)
        except importlib.metadata.PackageNotFoundError as error:
            print(f"benchmarks: {name} is left out: {error} is not installed; pip install {error}", file=sys.stderr)
            continue
        ask(name, [i for i in chosen if is_asked(name, items()[i]) and not table.has(name, items()[i])], table)
    report.progress("")
    report.say(text(table.rows), args.json)
    table.finish(args)
    return 0


def is_asked(name, item):
    """Whether a checker is asked about this: causes are counted where the true one is listed."""
    return name != "npformer cause" or bool(item.kinds)


class Table:
    """All rows so far, those of the file of --save among them."""

    def __init__(self, args):
        self.rows, self.versions, self._args, self._kept = [], {}, args, time.monotonic()
        if args.save is not None and args.save.exists() and not args.again:
            before = json.loads(args.save.read_text(encoding="utf-8"))
            self.rows, self.versions = unpacked(before["results"]), before["versions"]

    def has(self, name, item):
        """Whether this was asked already."""
        return (name, item.list, item.name, item.is_right) in {key_of(row) for row in self.rows}

    def add(self, row):
        """Keep a row, and now and then write the file."""
        self.rows = [one for one in self.rows if key_of(one) != key_of(row)] + [row]
        if self._args.save is not None and time.monotonic() - self._kept > KEPT_EVERY:
            self.finish(argparse.Namespace(json=False, save=self._args.save))

    def finish(self, args):
        """Write the document, as --json and --save say."""
        self._kept = time.monotonic()
        about = machine.describe([], True, "numpy", ["float64", "float32", "bfloat16", "float16"])
        about["command"] = "python -m benchmarks.checkers --save benchmarks/results/checkers.json"
        head = {"benchmark": "checkers", "machine": about, "versions": self.versions}
        report.finish_rows(head, packed(self.rows), args)


def key_of(row):
    """What a row is about."""
    return row["checker"], row["list"], row["name"], row["is_right"]


def ask(name, numbers, table):
    """Ask one checker about these items, in a process of its own. A process that dies is told with its item."""
    while numbers:
        command = [sys.executable, "-m", "benchmarks.checkers.child"]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=machine.ROOT) as child:
            child.stdin.write(json.dumps([name, numbers]) + "\n")
            child.stdin.close()
            answered = 0
            for line in child.stdout:
                table.add(json.loads(line))
                answered += 1
                report.progress(f"{name}: {answered} of {len(numbers)}")
        if answered == len(numbers):
            return
        item = items()[numbers[answered]]
        about = {"checker": name, "list": item.list, "name": item.name, "is_right": item.is_right}
        table.add(about | {"verdict": "raised", "words": f"the process ended with {child.returncode}", "seconds": 0.0})
        numbers = numbers[answered + 1 :]


def text(rows):
    """A table for each list."""
    parts = []
    for name in LISTS:
        lines = [line for line in (cells(rows, checker, name) for checker in CHECKERS) if line]
        parts += [name, report.table(("", *COLUMNS), lines), ""] if lines else []
    return "\n".join(parts)


if __name__ == "__main__":
    raise SystemExit(main())
