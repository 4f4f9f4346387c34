"""How the tolerances of npf.tolerance fare: right kernels of 20 formulas in three precisions, at other seeds.

    python -m benchmarks.tolerance                     all formulas, 167 seeds each: 10,020 in all
    python -m benchmarks.tolerance --only softmax      formulas whose name contains this
    python -m benchmarks.tolerance --save tolerance.json

A tolerance is measured once, with what draws the formula's inputs as ``sample``. Then right kernels are compared with
the reference at seeds of their own. A failure is a right kernel beyond its tolerance. A tolerance should be no wider
than 4 times the largest error that was seen, and the smallest wrong factor within twice the predicted one.

Exit code: 0 a report was made, 2 no report can be made.
"""

import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from benchmarks import machine, report
from benchmarks.options import add_save, at_least_1, bare_parser
from benchmarks.tolerance.formulas import PRECISIONS
from benchmarks.tolerance.score import CASES, counts, summary, tried

SEEDS = 167


def main(argv=None):
    """Parse, try, report."""
    parser = bare_parser("tolerance", __doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="formulas whose name contains TEXT")
    parser.add_argument("--seeds", type=at_least_1, default=SEEDS, metavar="N", help=f"for each (default: {SEEDS})")
    parser.add_argument("--jobs", type=at_least_1, default=1, metavar="N", help="processes (default: 1)")
    add_save(parser)
    args = parser.parse_args(argv)
    cases = [number for number, (name, _) in enumerate(CASES) if args.only.lower() in name.lower()]
    if not cases:
        print(f"benchmarks: --only: expected a part of a formula's name, got {args.only!r}", file=sys.stderr)
        return 2
    rows = []
    with ProcessPoolExecutor(args.jobs, get_context("spawn")) as pool:
        for number, found in zip(cases, pool.map(tried, [(number, args.seeds) for number in cases]), strict=True):
            report.progress(", ".join(CASES[number]))
            rows += found
    report.progress("")
    report.say(text(rows), args.json)
    about = machine.describe([], True, "numpy", list(PRECISIONS))
    report.finish_rows({"benchmark": "tolerance", "machine": about, "summary": summary(rows)}, rows, args)
    return 0


def text(rows):
    """A row for each tolerance, then the counts."""
    head = ("formula", "precision", "of", "atol", "rtol", "used", "failures", "without sample", "predicted", "measured")
    table = [
        [row["formula"], row["precision"], row["tensor"], f"{row['atol']:.2g}", f"{row['rtol']:.2g}",
         f"{max(row['used'].values()):.2f}", str(row["failures"]), str(row["failures_without_sample"]),
         f"{row['predicted']:.1e}", f"{row['measured']:.1e}"]
        for row in rows
    ]  # fmt: skip
    said = [f"{name.replace('_', ' ')}: {value:,.4g}" for name, value in counts(rows).items()]
    return "\n".join([report.table(head, table), "", *said])


if __name__ == "__main__":
    raise SystemExit(main())
