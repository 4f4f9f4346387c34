"""The verdict on one mistake, its line and its cause."""

import importlib.util
import os
import sys
import tempfile
import time
import warnings
from importlib.util import find_spec
from pathlib import Path

import npformer as npf
from benchmarks.foreign.score import UNEXPLAINED, judged
from benchmarks.sources.listed import CASES
from npformer.check.repairs import budget
from npformer.check.report import RIGHT, WRONG

FRAMEWORKS = ("triton", "torch", "jax")


def listed():
    """(case, mistake) of each: first the right one, whose mistake is None; those whose framework is installed."""
    return [
        (case, edit) for case in CASES if find_spec(case.framework) is not None for edit in (None, *case.edits)
    ]  # fmt: skip


def loaded(case, edit, folder):
    """The Function or the rule from the case's file with the mistake, written to a folder and imported from there."""
    os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported
    path = Path(folder) / case.file
    path.write_text(case.text(edit), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(f"{path.stem}_{Path(folder).name}", path)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, case.name)


def checked(case, edit=None):
    """The report on a case with a mistake."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what a changed source divides by
        target = loaded(case, edit, folder)
        adapted = (npf.from_jax if case.framework == "jax" else npf.from_torch)(target)
        return npf.gradcheck(adapted, *case.inputs, constant=case.constant)


def judged_case(number):
    """The outcome on the case of this number, for JSON.

    The search's time is counted in processor time, so that what else the machine does changes no outcome.
    """
    case, edit = listed()[number]
    budget.now = time.process_time
    began = time.process_time()
    row = {"framework": case.framework, "name": case.name, "mistake": edit and edit.what}
    try:
        report = checked(case, edit)
    except Exception as error:
        return row | {"verdict": "raised", "message": f"{type(error).__name__}: {error}", "line": False, "cause_is": ""}
    wrong = [one for one in report.rows if one.verdict == WRONG]
    row |= {"verdict": WRONG if wrong else RIGHT if report.ok else "problem", "line": False, "cause_is": ""}
    row["seconds"] = round(time.process_time() - began, 1)
    if edit is None or not wrong:
        return row
    place = f"{case.file}, line {case.line(edit)},"
    cause = next((one.cause for one in wrong if one.cause not in UNEXPLAINED), "")
    said = next((one.diagnosis for one in wrong if one.diagnosis), "")
    return row | {
        "line": any(place in one.diagnosis for one in wrong),
        "cause_is": judged(cause, edit.kinds),
        "place": place.rstrip(","),
        "said": said,
    }


def summary(rows):
    """Counts for each framework: right ones called right, mistakes found, with their line, with their cause."""
    found = {}
    for framework in FRAMEWORKS:
        mine = [row for row in rows if row["framework"] == framework]
        wrong = [row for row in mine if row["mistake"]]
        found[framework] = {
            "right": len(mine) - len(wrong),
            "called_right": sum(row["verdict"] == RIGHT for row in mine if not row["mistake"]),
            "mistakes": len(wrong),
            "found": sum(row["verdict"] in (WRONG, "raised", "problem") for row in wrong),
            "raised": sum(row["verdict"] == "raised" for row in wrong),
            "line": sum(row["line"] for row in wrong),
            "cause": sum(row["cause_is"] == "right" for row in wrong),
            "most_seconds": max((row.get("seconds", 0) for row in mine), default=0),
        }
    return found
