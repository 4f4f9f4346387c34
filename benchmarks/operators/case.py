"""One operator at one point, what gradcheck says of it, and how long that takes."""

import signal
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from npformer.check import gradcheck
from npformer.check.report import KINK, NOTHING, RIGHT, UNCLEAR, WRONG

LONGEST = 60  # seconds: a check that takes longer is ended
CRASH, LATE = "crash", "late"
VERDICTS = (RIGHT, WRONG, UNCLEAR, KINK, NOTHING, CRASH, LATE)


class Case(NamedTuple):
    """An operator at a point. make(): a target of gradcheck and its inputs, imported only then."""

    name: str
    make: Callable[[], tuple[Any, tuple[Any, ...]]]
    options: dict[str, Any] = {}  # noqa: RUF012 - nobody writes into it
    peer: Callable[[], bool] | None = None  # the library's own check, asked where a gradient is called WRONG


def with_regimes(name, make, **options):
    """A pair as two cases: plain, and in every regime."""
    return [Case(name, make, options), Case(f"{name}, regimes", make, options | {"regimes": "all"})]


def outcome(case):
    """The verdict on a case, for JSON. An exception of the check is a crash."""
    began, row = time.process_time(), {"name": case.name, "error": 0.0}
    before = signal.signal(signal.SIGALRM, _late)
    signal.alarm(LONGEST)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            target, inputs = case.make()
            report = gradcheck(target, *inputs, **{"explain": False, "allow_length_one": True} | case.options)
        row |= told(report)
    except TimeoutError:
        row |= {"verdict": LATE, "note": f"more than {LONGEST} s"}
    except Exception as error:
        row |= {"verdict": CRASH, "note": f"{type(error).__name__}: {str(error)[:200]}"}
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    if row["verdict"] == WRONG and case.peer is not None:
        row["peer"] = case.peer()
    return row | {"seconds": round(time.process_time() - began, 2)}


def _late(number, frame):
    raise TimeoutError


def told(report):
    """The gravest verdict of a report, regimes too; a problem counts as WRONG."""
    failing = [tried for tried in report.regimes if tried.fails]
    problems = [each for each in report.problems if not each.startswith("forward is not finite")]
    found = {row.verdict for row in report.rows} | ({WRONG} if failing or problems else set())
    row = report.worst
    notes = [*report.problems[:1], f"{row.tensor}: {row.note}" if row.note else ""]
    notes += [f"{tried}: {tried.note or tried.verdict}" for tried in failing[:1]]
    return {
        "verdict": next((one for one in (WRONG, UNCLEAR, KINK, RIGHT, NOTHING) if one in found), UNCLEAR),
        "error": float(np.nan_to_num(row.scaled_error, nan=-1.0)), "note": "; ".join(filter(None, notes)),
    }  # fmt: skip
