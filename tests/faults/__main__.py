"""How npformer behaves under faults from outside: one kind of fault is injected many times, and the damage counted.

    python -m tests.faults files               damaged files of every kind that npformer reads
    python -m tests.faults files --only 1234   one of them, with its traceback
    python -m tests.faults interrupts          Ctrl-C within a step, with each table of kernels
    python -m tests.faults kernel_cache        damaged files of compiled kernels
    python -m tests.faults memory              random shapes, and the memory they leave in use

Exit code: 0 no damage, 1 some, 2 it cannot run.
"""

import argparse

from benchmarks.options import KERNELS, at_least_1, some_of
from benchmarks.report import table
from tests.faults import files, interrupts, kernel_cache, memory

#: Kind -> how often by default, and what injects it: (head, rows, whether there is damage) of (count, kernels).
KINDS = {
    "files": (10_000, files.injected), "interrupts": (200, interrupts.injected),
    "kernel_cache": (500, kernel_cache.injected), "memory": (2000, memory.injected),
}  # fmt: skip


def main():
    """The command; see --help."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--count", type=at_least_1, help="files, interrupts of each row, or shapes")
    parser.add_argument("--kernels", type=some_of(KERNELS), default="plain,numpy,numba", help="tables of kernels")
    parser.add_argument("--only", type=int, metavar="N", help="read damaged file N alone")
    args = parser.parse_args()
    if args.only is not None:
        one = files.outcome(args.only)
        print(one["outcome"], one["text"], sep="\n")
        return int(one["outcome"] in files.FAULTS)
    count, inject = KINDS[args.kind]
    head, rows, harmed = inject(args.count or count, args.kernels)
    print(table(head, [list(map(str, row)) for row in rows]))
    return int(harmed)


if __name__ == "__main__":
    raise SystemExit(main())
