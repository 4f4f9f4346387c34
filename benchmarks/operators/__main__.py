"""How gradcheck judges operators that nobody of npformer wrote.

    python -m benchmarks.operators op_db                  PyTorch's operator database
    python -m benchmarks.operators op_db --only conv      operators whose name contains this
    python -m benchmarks.operators op_db --save ops.json  save the outcome, too

Seconds are of the process, one thread. A kink and what is declined count as CANNOT TELL; PROVES NOTHING is where every
gradient is 0, or none is defined.

Exit code: 0 a report was made, 2 no report can be made.
"""

import sys
from importlib import import_module

from benchmarks import machine, report
from benchmarks.operators.case import VERDICTS, outcome
from benchmarks.options import add_save, bare_parser
from npformer.check.report import RIGHT

KINDS = ("op_db", "planted", "autograd_vjps", "thinc_pairs")


def main(argv=None):
    """Parse, judge, report."""
    parser = bare_parser("operators", __doc__)
    parser.add_argument("kind", choices=KINDS, help="whose operators")
    parser.add_argument("--only", default="", metavar="TEXT", help="operators whose name contains TEXT")
    add_save(parser)
    args = parser.parse_args(argv)
    try:
        every, left_out = import_module(f"benchmarks.operators.{args.kind}").cases()
    except ImportError as error:
        parser.error(f"{args.kind}: expected its package to be installed, got: {error}")
    rows = []
    for case in every:
        if args.only.lower() in case.name.lower():
            report.progress(case.name)
            rows.append(outcome(case))
            if rows[-1]["verdict"] != RIGHT:
                line = "{verdict:<14} {name:<44} {seconds:6.1f} s  {error:.1e}  {note}"
                report.say(line.format(**rows[-1]), args.json)
    report.progress("")
    counts = {verdict: sum(row["verdict"] == verdict for row in rows) for verdict in VERDICTS}
    slowest = max((row["seconds"] for row in rows), default=0.0)
    summary = {"cases": len(rows)} | counts | {"slowest, s": slowest, "left out": dict(left_out)}
    report.say("\n".join(f"{name:<16} {value}" for name, value in summary.items()), args.json)
    about = machine.describe([], "numpy", ["float64"])
    report.finish_rows({"benchmark": f"operators, {args.kind}", "machine": about, "summary": summary}, rows, args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
