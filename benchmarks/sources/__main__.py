"""Whether gradcheck finds mistakes in Triton, PyTorch and JAX code, and names their lines.

    python -m benchmarks.sources                        all cases whose framework is installed
    python -m benchmarks.sources --only triton          those whose framework or name contains this
    python -m benchmarks.sources --save sources.json

Triton's kernels run in its interpreter, on the CPU. A line counts if it is the one that the mistake changed; another
line at which a change undoes it, too, does not. Seconds are those of the processor.

Exit code: 0 a report was made, 2 no report can be made.
"""

import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from benchmarks import machine, report
from benchmarks.options import add_save, at_least_1, bare_parser
from benchmarks.sources.score import judged_case, listed, summary


def main(argv=None):
    """Parse, judge, report."""
    parser = bare_parser("sources", __doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose framework or name contains TEXT")
    parser.add_argument("--jobs", type=at_least_1, default=1, metavar="N", help="processes (default: 1)")
    add_save(parser)
    args = parser.parse_args(argv)
    cases = [i for i, (case, _) in enumerate(listed()) if args.only.lower() in f"{case.framework} {case.name}".lower()]
    if not cases:
        print(f"benchmarks: --only: expected a part of a case's name, got {args.only!r}", file=sys.stderr)
        return 2
    rows = []
    with ProcessPoolExecutor(args.jobs, get_context("spawn")) as pool:
        for number, row in enumerate(pool.map(judged_case, cases), 1):
            report.progress(f"{number} of {len(cases)}: {row['framework']}, {row['name']}")
            rows.append(row)
    report.progress("")
    report.say(text(rows), args.json)
    about = machine.describe([], True, "numpy", ["float64"])
    report.finish_rows({"benchmark": "sources", "machine": about, "summary": summary(rows)}, rows, args)
    return 0


def text(rows):
    """Each right case that is not called right, each mistake without its line, then a table of counts."""
    lines = [
        report.wrapped(f"{row['framework']} {row['name']}: {row['mistake'] or 'right'} | {row['verdict']} | "
                       f"{row.get('place', '')}: {row.get('said') or row.get('message', '')}")
        for row in rows
        if (not row["line"] if row["mistake"] else row["verdict"] != "right")
    ]  # fmt: skip
    columns = ("right", "called_right", "mistakes", "found", "raised", "line", "cause", "most_seconds")
    table = [[name, *(str(counts[column]) for column in columns)] for name, counts in summary(rows).items()]
    return "\n".join([*lines, "", report.table(("", *(c.replace("_", " ") for c in columns)), table)])


if __name__ == "__main__":
    raise SystemExit(main())
