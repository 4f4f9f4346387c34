"""How gradcheck judges kernels in low precision against their references.

    python -m benchmarks.precision                    every kernel of both lists, at five seeds
    python -m benchmarks.precision --only softmax     kernels whose name contains this
    python -m benchmarks.precision --save precision.json

A right kernel must never be WRONG, a wrong one never right. One that is wrong by less than its precision shows must not
be WRONG, and the report must say that its mistake would not have shown.

Exit code: 0 a report was made, 2 no report can be made.
"""

import re
import sys
import time
import warnings

import npformer as npf
from benchmarks import machine, report
from benchmarks.options import add_save, bare_parser
from benchmarks.precision.blind import BLIND
from benchmarks.precision.kernel import BELOW, RIGHT, WRONG
from benchmarks.precision.listed import KERNELS

SEEDS = range(5)
GROUPS = {"listed": KERNELS, "blind": BLIND}


def outcome(kernel, seed):
    """The verdict on one kernel at one seed: its gravest row's, or "problem"; with the report."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = npf.gradcheck(
            kernel.target, *kernel.inputs(seed), reference=kernel.reference, precision=kernel.precision,
            accumulate=kernel.accumulate, seed=seed, **kernel.options,
        )  # fmt: skip
    verdicts = [row.verdict for row in report.rows]
    for verdict in ("WRONG", "KINK HERE", "PROVES NOTHING", "CANNOT TELL"):
        if verdict in verdicts:
            return verdict, report
    return ("problem" if report.problems else "right"), report


def is_misjudged(kernel, verdict, report):
    """Whether the verdict contradicts the list; CANNOT TELL contradicts nothing."""
    if kernel.verdict == RIGHT:
        return verdict not in ("right", "CANNOT TELL")
    if kernel.verdict == WRONG:
        return verdict not in ("WRONG", "CANNOT TELL", "problem")
    return verdict == "WRONG" or (verdict == "right" and not would_hide(kernel, report))


def would_hide(kernel, report):
    """Whether some row says that a mistake of this size would not have shown."""
    shown = [float(x) for row in report.rows for x in re.findall(r"an error of ([\d.e+-]+) of", row.note)]
    return any(least > kernel.size for least in shown)


def main(argv=None):
    """Parse, judge, report."""
    parser = bare_parser("precision", __doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="kernels whose name contains TEXT")
    parser.add_argument("--list", choices=tuple(GROUPS), help="only this list")
    add_save(parser)
    args = parser.parse_args(argv)
    groups = [args.list] if args.list else list(GROUPS)
    rows = [judged(group, kernel) for group in groups for kernel in GROUPS[group] if args.only in kernel.name]
    if not rows:
        print(f"benchmarks: --only: expected a part of a kernel's name, got {args.only!r}", file=sys.stderr)
        return 2
    report.progress("")
    report.say(text(rows), args.json)
    about = machine.describe([], True, "numpy", sorted({row["precision"] for row in rows}))
    report.finish_rows({"benchmark": "precision", "machine": about, "seeds": len(SEEDS)}, rows, args)
    return 0


def judged(group, kernel):
    """One kernel at every seed, for JSON."""
    report.progress(kernel.name)
    began = time.perf_counter()
    outcomes = [outcome(kernel, seed) for seed in SEEDS]
    spent = time.perf_counter() - began
    bad = [seed for seed, each in zip(SEEDS, outcomes, strict=True) if is_misjudged(kernel, *each)]
    notes = sorted({row.note for _, each in outcomes for row in each.rows if row.verdict != "right"})
    problems = sorted({problem for _, each in outcomes for problem in each.problems})
    return {
        "list": group, "name": kernel.name, "precision": kernel.precision, "expected": kernel.verdict,
        "verdicts": [verdict for verdict, _ in outcomes], "misjudged": bad, "notes": notes[:3],
        "problems": problems[:2], "seconds": round(spent / len(SEEDS), 3),
    }  # fmt: skip


def text(rows):
    """Each kernel that is misjudged or cannot be told, then a table of counts."""
    lines = [
        report.wrapped(f"{row['expected']} {row['name']} ({row['precision']}): {', '.join(row['verdicts'])}"
                       + "".join(f" | {note}" for note in row["notes"] + row["problems"]))
        for row in rows
        if row["misjudged"] or "CANNOT TELL" in row["verdicts"]
    ]  # fmt: skip
    columns = ("right", "WRONG", "CANNOT TELL", "KINK HERE", "PROVES NOTHING", "problem", "misjudged")
    table = []
    for group in GROUPS:
        for expected in (RIGHT, WRONG, BELOW):
            chosen = [row for row in rows if (row["list"], row["expected"]) == (group, expected)]
            verdicts = [verdict for row in chosen for verdict in row["verdicts"]]
            counts = [str(verdicts.count(column)) for column in columns[:-1]]
            bad = str(sum(len(row["misjudged"]) for row in chosen))
            table += [[f"{group} {expected}", str(len(chosen)), *counts, bad]] if chosen else []
    return "\n".join([*lines, "", report.table(("", "kernels", *columns), table)])


if __name__ == "__main__":
    raise SystemExit(main())
