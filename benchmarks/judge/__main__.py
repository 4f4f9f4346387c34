"""How the judge does on kernels that deserve a verdict: right ones, wrong ones, cheats, and those that never end.

    python -m benchmarks.judge                     every kernel of the three lists
    python -m benchmarks.judge --only softmax      those whose name contains this
    python -m benchmarks.judge --save judge.json

A wrong kernel is found if it is called wrong or refused. A right one must be neither. No verdict may take longer than
was asked for.

Exit code: 0 a report was made, 2 no report can be made.
"""

import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

from benchmarks import machine, report
from benchmarks.judge import blind, third
from benchmarks.judge.wrong import EDITS, KERNELS
from benchmarks.options import add_save, bare_parser
from npformer.check.kernels.files import tasks_of
from npformer.check.kernels.judging import judged
from npformer.io.child_process import Limits

#: What a verdict may take.
LIMITS = Limits(seconds=60.0, memory=1024**3)
MOMENT = 1.0  # and so many seconds more, for a process to end
FOUND = ("wrong", "refused")
LISTS = {"blind": blind, "third": third}  # beside the judge's own


def list_of(operation):
    """The list of an operation's kernels, by name."""
    return next((name for name, one in LISTS.items() if operation in one.OPERATIONS), "own")


def listed(folder):
    """(list, what it deserves, its task) of each kernel; folder: where those with one mistake are written."""
    shutil.copytree(KERNELS / "wrong", folder, dirs_exist_ok=True)
    shutil.copy(KERNELS / "right" / "_bfloat16.py", folder)
    for edit in (*EDITS, *blind.EDITS, *third.EDITS):
        (Path(folder) / edit.file).write_text(edit.source(), encoding="utf-8")
    cases = [
        (list_of(task.reference.path.stem), deserved, task)
        for deserved, where in (("right", KERNELS / "right"), ("wrong", folder))
        for task in tasks_of([str(where)], str(KERNELS / "references"), "float32")
    ]
    return sorted(cases, key=lambda case: ("own", *LISTS).index(case[0]))


def row_of(case):
    """A kernel's verdict, for JSON."""
    name, deserved, task = case
    verdict = judged(task, LIMITS)
    kept = {key: verdict[key] for key in ("kernel", "precision", "verdict", "causes", "seconds")}
    report.progress(f"{kept['kernel']}: {kept['verdict']}")
    return {"list": name, "deserves": deserved, **kept}


def summary(rows):
    """Counts by list, by what was deserved."""
    counts = {}
    for row in rows:
        one = counts.setdefault(f"{row['list']} {row['deserves']}", Counter())
        one.update({"kernels": 1, row["verdict"]: 1, "late": int(row["seconds"] > LIMITS.seconds + MOMENT)})
    columns = ("kernels", "right", "wrong", "refused", "cannot tell", "late")
    return {kind: {column: one[column] for column in columns} for kind, one in counts.items()}


def misjudged(row):
    """Whether a right kernel is called wrong, or a wrong one is not found."""
    return (row["verdict"] in FOUND) == (row["deserves"] == "right")


def text(rows):
    """Each kernel that is misjudged or cannot be told, then a table of counts."""
    told = [row for row in rows if misjudged(row) or row["verdict"] == "cannot tell"]
    lines = [report.wrapped(f"{r['list']} {r['deserves']}: {r['kernel']} | {r['verdict']}: {'; '.join(r['causes'])}")
             for r in told]  # fmt: skip
    table = [[kind, *map(str, counts.values())] for kind, counts in summary(rows).items()]
    columns = next(iter(summary(rows).values()))
    return "\n".join([*lines, "", report.table(("", *columns), table)])


def main(argv=None):
    """Parse, judge, report."""
    parser = bare_parser("judge", __doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="kernels whose name contains TEXT")
    add_save(parser)
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        cases = [case for case in listed(folder) if args.only in case[2].path.name]
        if not cases:
            print(f"benchmarks: --only: expected a part of a kernel's name, got {args.only!r}", file=sys.stderr)
            return 2
        rows = [row_of(case) for case in cases]
    report.progress("")
    report.say(text(rows), args.json)
    about = machine.describe([], True, "numpy", sorted({row["precision"] for row in rows}))
    about = {"benchmark": "judge", "machine": about, "seconds_asked": LIMITS.seconds, "summary": summary(rows)}
    report.finish_rows(about, rows, args)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
