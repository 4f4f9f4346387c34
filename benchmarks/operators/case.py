"""One operator at one point, what gradcheck says of it, and how long that takes."""

import signal
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from npformer.check import gradcheck
from npformer.check.report import KINK, NOTHING, RIGHT, UNCLEAR, WRONG

#: A check that takes longer, in seconds, is ended.
LONGEST = 60
CRASH, LATE = "crash", "late"
VERDICTS = (RIGHT, WRONG, UNCLEAR, KINK, NOTHING, CRASH, LATE)


class Case(NamedTuple):
    """An operator at a point. make(): a target of gradcheck and its inputs, imported only then."""

    name: str
    make: Callable[[], tuple[Any, tuple[Any, ...]]]
    options: dict[str, Any] = {}  # noqa: RUF012 - nobody writes into it
    peer: Callable[[], bool] | None = None  # the library's own check, asked where a gradient is called WRONG


def outcome(case):
    """The verdict on a case, for JSON. An exception of the check is a crash."""
    began = time.process_time()
    row = {"name": case.name, "verdict": CRASH, "error": 0.0, "note": ""}
    before = signal.signal(signal.SIGALRM, _late)
    signal.alarm(LONGEST)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            target, inputs = case.make()
            report = gradcheck(target, *inputs, **{"explain": False, "allow_length_one": True} | case.options)
        row |= _of(report)
    except TimeoutError:
        row |= {"verdict": LATE, "note": f"more than {LONGEST} s"}
    except Exception as error:
        row["note"] = f"{type(error).__name__}: {str(error)[:200]}"
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    if row["verdict"] == WRONG and case.peer is not None:
        row["peer"] = case.peer()
    return row | {"seconds": round(time.process_time() - began, 2)}


def _late(number, frame):
    raise TimeoutError


def _of(report):
    """The gravest verdict of a report, regimes too; a problem counts as WRONG."""
    found = {row.verdict for row in report.rows} | {WRONG for tried in report.regimes if tried.failed}
    is_outside = any(problem.startswith("forward is not finite") for problem in report.problems)
    found |= {WRONG} if report.problems and not is_outside else set()
    verdict = next((one for one in (WRONG, UNCLEAR, KINK, RIGHT, NOTHING) if one in found), UNCLEAR)
    row = report.worst
    failing = [f"{tried}: {tried.note or tried.verdict}" for tried in report.regimes if tried.failed]
    note = "; ".join([*report.problems[:1], f"{row.tensor}: {row.note}" if row.note else "", *failing[:1]])
    return {"verdict": verdict, "error": float(np.nan_to_num(row.scaled_error, nan=-1.0)), "note": note.strip("; ")}
