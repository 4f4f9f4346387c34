"""How npformer derive does on 60 derivations: which line it names, and what it says of it.

    python -m benchmarks.derivations                 30 right ones and 30 wrong ones, 15 of these after public questions
    python -m benchmarks.derivations --only softmax  those whose name contains this
    python -m benchmarks.derivations --save benchmarks/results/derivations.json

The lists are in tests/check/derivations. Those called first were written before the checker, those called later after
it. A wrong one marks its first wrong line, and is found if that line is named. A right one must not be accused.

Exit code: 0 a report was made, 2 no report can be made.
"""

import re
import sys

from benchmarks import machine, report
from benchmarks.options import add_save, bare_parser
from npformer.check.derivations import judge, read

LISTS = ("first_right", "first_wrong", "later_right", "later_wrong")


def listed(which):
    """(name, text, the line marked as wrong or None) of each derivation of a list."""
    text = (machine.ROOT / "tests" / "check" / "derivations" / f"{which}.txt").read_text(encoding="utf-8")
    for head, _, body in (part.partition("\n") for part in re.split(r"^### ", text, flags=re.M)[1:]):
        marked = (i for i, line in enumerate(body.splitlines(), 1) if "# wrong" in line)
        yield head.partition(" | ")[0], body, next(marked, None)


def row_of(which, name, text, wrong):
    """What is said of a derivation, for JSON."""
    cause = judge(read(text, name)).cause
    said = {"named": cause and cause.line, "sentences": list(cause.sentences) if cause else []}
    return {"list": which, "name": name, "wrong": wrong, **said}


def summary(rows):
    """Of each list the number of derivations, and of those whose line is named, or that are accused of another."""
    return {
        which: {
            "derivations": sum(row["list"] == which for row in rows),
            "as marked": sum(row["list"] == which and row["named"] == row["wrong"] for row in rows),
            "accused": sum(row["list"] == which and row["named"] not in (None, row["wrong"]) for row in rows),
        }
        for which in LISTS
    }


def text(rows):
    """Each derivation that is misjudged, then the counts."""
    bad = [row for row in rows if row["named"] != row["wrong"]]
    lines = [f"{row['name']}: wrong line {row['wrong']}, named {row['named']}" for row in bad]
    table = [[which, *map(str, counts.values())] for which, counts in summary(rows).items()]
    return "\n".join([*lines, report.table(("list", "derivations", "as marked", "another line accused"), table)])


def main(argv=None):
    """Parse, judge, report."""
    parser = bare_parser("derivations", __doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="derivations whose name contains TEXT")
    add_save(parser)
    args = parser.parse_args(argv)
    rows = [row_of(which, *each) for which in LISTS for each in listed(which) if args.only in each[0]]
    if not rows:
        print(f"benchmarks: --only: expected a part of a derivation's name, got {args.only!r}", file=sys.stderr)
        return 2
    report.say(text(rows), args.json)
    about = machine.describe([], True, "numpy", ["float64"])
    report.finish_rows({"benchmark": "derivations", "machine": about, "summary": summary(rows)}, rows, args)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
