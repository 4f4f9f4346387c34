"""How gradcheck judges in regimes and at other sizes: bugs that show there alone, their right twins, foreign pairs.

    python -m benchmarks.regimes                     all bugs, all twins, all right foreign pairs
    python -m benchmarks.regimes --only softmax      those whose name contains this
    python -m benchmarks.regimes --save regimes.json

A bug is found if some regime or size is WRONG. A twin or a foreign pair must be WRONG in none; CANNOT TELL is counted
beside all that was tried, without kinks. Some foreign pairs are not right everywhere: listed.py names them, the regime
and the reason, and they count apart.

Exit code: 0 a report was made, 2 no report can be made.
"""

import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from benchmarks import machine, report
from benchmarks.options import add_save, at_least_1, bare_parser
from benchmarks.regimes.score import judged, listed, summary


def main(argv=None):
    """Parse, judge, report."""
    parser = bare_parser("regimes", __doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="pairs whose name contains TEXT")
    parser.add_argument("--jobs", type=at_least_1, default=1, metavar="N", help="processes (default: 1)")
    add_save(parser)
    args = parser.parse_args(argv)
    cases = [i for i, (_, name, _) in enumerate(listed()) if args.only.lower() in name.lower()]
    if not cases:
        print(f"benchmarks: --only: expected a part of a pair's name, got {args.only!r}", file=sys.stderr)
        return 2
    rows = []
    with ProcessPoolExecutor(args.jobs, get_context("spawn")) as pool:
        for number, row in enumerate(pool.map(judged, cases), 1):
            report.progress(f"{number} of {len(cases)}: {row['kind']}, {row['name']}")
            rows.append(row)
    report.progress("")
    report.say(text(rows), args.json)
    about = machine.describe([], True, "numpy", ["float64", "float32", "bfloat16"])
    report.finish_rows({"benchmark": "regimes", "machine": about, "summary": summary(rows)}, rows, args)
    return 0


def text(rows):
    """Each pair that is misjudged, then a table of counts."""
    bad = [row for row in rows if (not row["wrong"] if row["kind"] == "bug" else row["wrong"])]
    lines = [report.wrapped(f"{row['kind']}: {row['name']} | {'; '.join(row['wrong'][:3]) or 'not found'}")
             for row in bad]  # fmt: skip
    lines += [report.wrapped(f"not right there: {row['name']} | {row['not_right'][0]}") for row in rows
              if row["not_right"]]  # fmt: skip
    columns = ("pairs", "called_wrong", "not_right", "points", "cannot_tell", "kinks", "not_tried")
    table = [[kind, *(str(counts[column]) for column in columns)] for kind, counts in summary(rows).items()]
    return "\n".join([*lines, "", report.table(("", *(c.replace("_", " ") for c in columns)), table)])


if __name__ == "__main__":
    raise SystemExit(main())
