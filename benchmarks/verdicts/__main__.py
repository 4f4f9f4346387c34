"""How gradcheck judges programs that are hard to judge: each right one, and its wrong twin.

    python -m benchmarks.verdicts                     every program
    python -m benchmarks.verdicts --only softmax      those whose name contains this
    python -m benchmarks.verdicts --list more         a second list, written after the checker's mends and scored once
    python -m benchmarks.verdicts --list blind        a third one, by somebody who had not seen how a program is judged

A right program is accused if it is called WRONG or has a problem; a wrong one is certified if its report is ok.

Exit code: 0 a report was made, 2 no report can be made.
"""

import sys
import time
import warnings

import numpy as np

from benchmarks import machine, report
from benchmarks.options import add_save, bare_parser
from benchmarks.verdicts.blind import BLIND
from benchmarks.verdicts.more import MORE
from benchmarks.verdicts.twins import TWINS
from npformer.check import gradcheck
from npformer.check.report import WRONG

ACCUSED, CERTIFIED, CRASH, UNSURE, GOOD = "accused", "certified", "crash", "cannot tell", "as it should be"
LISTS = {"twins": TWINS, "more": MORE, "blind": BLIND}
OUTCOMES = (GOOD, ACCUSED, CERTIFIED, UNSURE, CRASH)


def judged(twin, wrong):
    """(the outcome of a program, what was said of it)."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            target, inputs = twin.make(wrong)
            found = gradcheck(target, *inputs, explain=False, **twin.options)
    except ImportError:
        raise
    except Exception as error:
        return CRASH, f"{type(error).__name__}: {error}"
    said = [row.verdict for row in found.rows] + [str(tried) for tried in found.regimes if tried.failed]
    is_accused = WRONG in said or bool(found.problems) or any(tried.failed for tried in found.regimes)
    verdicts = {row.verdict for row in found.rows}
    if wrong:
        return (GOOD if is_accused else CERTIFIED if found.ok else UNSURE), ", ".join(said)
    return (ACCUSED if is_accused else GOOD if found.ok or verdicts <= set(twin.may) else UNSURE), ", ".join(said)


def main(argv=None):
    """Parse, judge, report."""
    parser = bare_parser("verdicts", __doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="programs whose name contains TEXT")
    parser.add_argument("--list", choices=LISTS, default="twins", help="which programs (default: twins)")
    add_save(parser)
    args = parser.parse_args(argv)
    rows = []
    for twin in (one for one in LISTS[args.list] if args.only in one.name):
        for wrong in (False, True):
            began = time.process_time()
            outcome, said = judged(twin, wrong)
            rows.append({"name": twin.name, "deserves": "wrong" if wrong else "right", "outcome": outcome, "said": said,
                         "seconds": round(time.process_time() - began, 2)})  # fmt: skip
            report.say("{deserves:<6} {name:<34} {outcome:<16} {seconds:6.1f} s  {said}".format(**rows[-1]), args.json)
    counts = {outcome: sum(row["outcome"] == outcome for row in rows) for outcome in OUTCOMES}
    report.say("\n" + ", ".join(f"{count} {outcome}" for outcome, count in counts.items()), args.json)
    about = machine.describe([], True, "numpy", ["float64"])
    report.finish_rows({"benchmark": "verdicts", "machine": about, "summary": counts}, rows, args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
