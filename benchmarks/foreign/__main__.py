"""How gradcheck judges pairs that it has never seen: right pairs, and wrong pairs with a known cause.

    python -m benchmarks.foreign                             every pair, in float64
    python -m benchmarks.foreign --only "layer norm"         pairs whose name contains this
    python -m benchmarks.foreign --dtype float32             each pair in float32, against the same pair in float64
    python -m benchmarks.foreign --blind                     a second list, written without sight of the diagnosis
    python -m benchmarks.foreign --save foreign.json         save the outcome, too

The pairs are written in plain NumPy and use nothing of npformer. The cause named for a wrong pair is right if the
first explained WRONG row names one of the kinds that a person would name. A wrong pair is told apart if gradcheck
calls it WRONG and calls its right pair right. An exception from gradcheck is counted as raised.

Exit code: 0 a report was made, 2 no report can be made.
"""

import sys

from benchmarks import machine, report
from benchmarks.foreign.blind import BLIND_RIGHT, blind_wrong
from benchmarks.foreign.listed import RIGHT, wrong_pairs
from benchmarks.foreign.score import as_dict, outcome, summary
from benchmarks.options import add_save, bare_parser

ORIGINS = ("right", "by hand", "mutant")
COLUMNS = ("right", "WRONG", "CANNOT TELL", "KINK HERE", "PROVES NOTHING", "problem", "raised")
CAUSES = ("told apart", "cause right", "cause false", "cause unknown")


def main(argv=None):
    """Parse, judge, report."""
    parser = bare_parser("foreign", __doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="pairs whose name contains TEXT, in any case")
    parser.add_argument("--dtype", choices=("float64", "float32"), default="float64", help="(default: float64)")
    add_save(parser)
    parser.add_argument("--blind", action="store_true", help="the second list, in place of the first")
    args = parser.parse_args(argv)
    pairs = selected(args.only, args.blind)
    if not pairs:
        print(f"benchmarks: --only: expected a part of a pair's name, got {args.only!r}", file=sys.stderr)
        return 2
    outcomes = []
    for number, pair in enumerate(pairs, 1):
        report.progress(f"{number} of {len(pairs)}: {pair.name}")
        outcomes.append(outcome(pair, args.dtype))
    report.progress("")
    report.say(text(outcomes), args.json)
    about = machine.describe([], True, "numpy", [args.dtype])
    head = {"benchmark": "foreign, blind" if args.blind else "foreign", "machine": about, "dtype": args.dtype}
    report.finish_rows(head | {"summary": summary(outcomes)}, map(as_dict, outcomes), args)
    return 0


def selected(part, is_blind=False):
    """The pairs whose name contains this, and the right pair of each wrong one."""
    right, every = (BLIND_RIGHT, blind_wrong()) if is_blind else (RIGHT, wrong_pairs())
    wrong = [pair for pair in every if part.lower() in pair.name.lower()]
    needed = {pair.pair.name for pair in wrong}
    return [*(pair for pair in right if part.lower() in pair.name.lower() or pair.name in needed), *wrong]


def text(outcomes):
    """List every failure, then print the tables."""
    counts = summary(outcomes)
    verdicts = [[o, *(str(counts[o].get(c, 0)) for c in ("pairs", *COLUMNS))] for o in ORIGINS if o in counts]
    causes = [[o, *(str(counts[o].get(c, 0)) for c in CAUSES)] for o in ORIGINS[1:] if o in counts]
    parts = [report.wrapped(line(outcome)) for outcome in outcomes if outcome.is_failure]
    parts += ["", report.table(("", "pairs", *COLUMNS), verdicts)]
    return "\n".join(parts + (["", report.table(("called WRONG", *CAUSES), causes)] if causes else []))


def line(each):
    """A failure: the pair and its outcome."""
    outcome = f"{each.verdict}: {each.message}" if each.message else each.verdict
    if each.cause_is:
        outcome = f"cause {each.cause_is}" + (f": {each.cause}" if each.cause else "")
    return f"{each.origin:<8} {each.name} | {outcome}"


if __name__ == "__main__":
    raise SystemExit(main())
