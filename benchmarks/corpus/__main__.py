"""How the checks judge code that they have never seen: right pairs, and mistakes whose cause is known.

    python -m benchmarks.corpus                            every pair of every list, and its mistakes
    python -m benchmarks.corpus --list foreign             one list
    python -m benchmarks.corpus --only softmax             pairs whose name or theme contains this
    python -m benchmarks.corpus --jobs 2 --save benchmarks/results/corpus.json

foreign: pairs in NumPy as other people write them; a cause counts if it names one of the mistake's kinds. verdicts:
programs that are hard to judge. precision: kernels in low precision beside references, at five seeds. regimes: mistakes
that show in a regime or at a size alone. sources: Triton's kernels, JAX's rules and PyTorch's functions; the mistake's
line is asked for. judge: kernels for npformer judge, cheats among them. tolerance: right kernels of 20 formulas at 167
seeds in three precisions. derivations: on paper, half of them wrong in one line. people: programs with mistakes that
people reported; a change that the check proposes is applied, and has to mend them at six points of three sizes.
Right foreign pairs are asked in regimes, too.

Exit code: 0 a report was made, 2 no report can be made.
"""

import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from benchmarks import machine, report
from benchmarks.corpus.asked import cases, row_of
from benchmarks.corpus.pairs import LISTS
from benchmarks.options import add_save, at_least_1, bare_parser

COLUMNS = {
    "right": "right", "called_right": "called right", "accused": "accused", "unsure": "cannot tell", "wrong": "wrong",
    "found": "found", "certified": "certified", "wrong_unsure": "cannot tell", "cause": "cause named",
    "cause_false": "a false one", "line": "line named",
}  # fmt: skip


def main(argv=None):
    """Parse, ask, report."""
    parser = bare_parser("corpus", __doc__)
    parser.add_argument("--list", choices=LISTS, help="only this list")
    parser.add_argument("--only", default="", metavar="TEXT", help="pairs whose name or theme contains TEXT")
    parser.add_argument("--jobs", type=at_least_1, default=1, metavar="N", help="processes (default: 1)")
    add_save(parser)
    args = parser.parse_args(argv)
    chosen = [
        number for number, (which, pair, _) in enumerate(cases())
        if args.list in (None, which.partition(",")[0]) and args.only.lower() in f"{pair.theme}: {pair.name}".lower()
    ]  # fmt: skip
    if not chosen:
        print(f"benchmarks: --only: expected a part of a pair's name, got {args.only!r}", file=sys.stderr)
        return 2
    rows = []
    with ProcessPoolExecutor(args.jobs, get_context("spawn")) as pool:
        for row in pool.map(row_of, chosen):
            rows.append(row)
            report.progress(f"{len(rows)} of {len(chosen)}: {row['list']}, {row['name']}")
    report.progress("")
    report.say(text(rows), args.json)
    about = machine.describe([], "numpy", ["float64", "float32", "bfloat16", "float16"])
    report.finish_rows({"benchmark": "corpus", "machine": about, "summary": summary(rows)}, rows, args)
    return 0


def is_misjudged(row):
    """Whether the verdict is not the one that the row deserves."""
    return row["verdict"] != ("wrong" if row["deserves"] == "wrong" else "right")


def summary(rows):
    """Counts of each list. A pair that is wrong by less than shows counts as right: it may not be accused."""
    return {which: counts([row for row in rows if row["list"] == which]) for which in dict.fromkeys(map(_list, rows))}


def _list(row):
    return row["list"]


def counts(rows):
    """Those of one list, of what was installed."""
    rows = [row for row in rows if row["verdict"] != "not installed"]
    wrong = [row for row in rows if row["deserves"] == "wrong"]
    right = [row for row in rows if row["deserves"] != "wrong"]

    def so_many(rows, **fields):
        return sum(all(row.get(key) == value for key, value in fields.items()) for row in rows)

    return {
        "right": len(right), "called_right": so_many(right, verdict="right"),
        "accused": so_many(right, verdict="wrong"), "unsure": so_many(right, verdict="cannot tell"),
        "wrong": len(wrong), "found": so_many(wrong, verdict="wrong"), "certified": so_many(wrong, verdict="right"),
        "wrong_unsure": so_many(wrong, verdict="cannot tell"), "cause": so_many(wrong, cause="right"),
        "cause_false": so_many(wrong, cause="false"), "line": so_many(wrong, line=True),
        "proposed": sum("applied" in row for row in wrong), "applied": so_many(wrong, applied=True),
        "raised": so_many(rows, verdict="raised"), "late": so_many(rows, late=True),
    }  # fmt: skip


def text(rows):
    """Each row that is misjudged, then one table."""
    lines = [
        f"{row['list']}: {row['name']}, {row.get('mistake', row['deserves'])} | {row['verdict']}: {row['said']}"
        for row in rows
        if is_misjudged(row)
    ]  # fmt: skip
    table = [[which, *(str(found[column]) for column in COLUMNS)] for which, found in summary(rows).items()]
    return "\n".join([*lines, "", report.table(("", *COLUMNS.values()), table)])


if __name__ == "__main__":
    raise SystemExit(main())
