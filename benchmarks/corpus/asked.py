"""What is asked about each pair of the corpus, as its author would ask; one row for each answer.

A row's verdict is "right", "wrong" (WRONG, a problem, a regime that fails, refused) or "cannot tell"; "raised" if the
check itself raised, "not installed" if the pair's framework is missing.
"""

import os
import re
import shutil
import tempfile
import time
import warnings
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import npformer as npf
from benchmarks.corpus import people, rounding, tolerances
from benchmarks.corpus.families import cause_of, judged
from benchmarks.corpus.pairs import LISTS, as_tuple, loaded, pairs
from npformer.check import derivations
from npformer.check.causes import search
from npformer.check.inputs import is_float
from npformer.check.kernels import judging
from npformer.check.kernels.files import tasks_of
from npformer.check.report import KINK, NOT_TRIED, RIGHT, UNCLEAR, WRONG
from npformer.io.child_process import Limits

FOUND = {True: "wrong", False: "right"}
SEEDS = range(5)  # of kernels in low precision
#: What a verdict of the judge may take, and so many seconds more for a process to end.
LIMITS, MOMENT = Limits(seconds=60.0, memory=1024**3), 1.0


def cases():
    """(list, pair, mistake or None) of all that is asked; right foreign pairs are asked in regimes, too."""
    for which in LISTS:
        for pair in pairs(which):
            yield which, pair, None
            yield from ((which, pair, mistake) for mistake in pair.mistakes)
    yield from (("regimes, foreign", pair, None) for pair in pairs("foreign"))


def row_of(number):
    """The row of the case of this number, for JSON. Seconds and searches are counted in processor time."""
    which, pair, mistake = list(cases())[number]
    row = {"list": which, "theme": pair.theme, "name": pair.name, "deserves": pair.deserved(mistake)}
    row |= {"mistake": mistake.title or mistake.id or "wrong"} if mistake else {}
    os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported
    search.now = time.process_time
    began = time.process_time()
    try:
        with quiet():
            row |= ASKED[which](pair, mistake)
    except ImportError as error:
        row |= {"verdict": "not installed", "said": str(error)}
    except Exception as error:
        row |= {"verdict": "raised", "said": f"{type(error).__name__}: {error}"}
    return row | {"seconds": round(time.process_time() - began, 1)}


@contextmanager
def quiet():
    """No warnings: a wrong backward may divide by 0."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def checked(pair, mistake, inputs=None, **how):
    """gradcheck's report on a pair; how: options beside its own."""
    with loaded(pair, mistake) as evaluate:
        target, own = evaluate(pair.made) if pair.made else (evaluate(pair.target), as_tuple(evaluate(pair.inputs)))
        if pair.reference:
            how |= {"reference": evaluate(pair.reference), "precision": pair.precision, "accumulate": pair.accumulate}
        return npf.gradcheck(target, *(own if inputs is None else inputs), **how | (evaluate(pair.options) or {}))


def verdict_of(report, may=()):
    """Of a report as a whole; ``may``: what a right pair may be called beside right."""
    verdicts = {row.verdict for row in report.rows}
    failed = [tried for tried in report.regimes if tried.fails]
    if WRONG in verdicts or report.problems or failed:
        return "wrong"
    return "right" if report.ok or verdicts <= set(may) else "cannot tell"


def of_pair(pair, mistake):
    """The verdict and, of a mistake with kinds, whether the named cause is true and its line is named."""
    report = checked(pair, mistake)
    verdict = verdict_of(report)
    if mistake is None or verdict != "wrong":
        return {"verdict": verdict, "said": "; ".join(report.problems)}
    wrong = [row for row in report.rows if row.verdict == WRONG]
    said = next((row.diagnosis for row in wrong if row.diagnosis), "")
    line = any(f", line {pair.line(mistake)}," in row.diagnosis for row in wrong)
    return {"verdict": verdict, "cause": judged(cause_of(report), mistake.kinds), "line": line, "said": said}


def of_program(pair, mistake):
    report = checked(pair, mistake, explain=False)
    said = [row.verdict for row in report.rows] + [str(tried) for tried in report.regimes if tried.fails]
    return {"verdict": verdict_of(report, () if mistake else pair.may), "said": ", ".join(said)}


def in_precision(pair, mistake):
    """A verdict at each seed; of all, the one that does least justice."""
    size, deserves = mistake.size if mistake else pair.size, pair.deserved(mistake)
    with loaded(pair, mistake) as evaluate:
        draw = evaluate(pair.draw)
    reports = [
        checked(pair, mistake, inputs=drawn(draw, seed, pair.precision), seed=seed, explain=False) for seed in SEEDS
    ]
    verdicts = [
        "missed" if deserves == "below" and verdict == "right" and not would_hide(report, size) else verdict
        for report, verdict in ((report, verdict_of(report)) for report in reports)
    ]
    worst = ("right", "cannot tell", "wrong") if deserves == "wrong" else ("wrong", "missed", "cannot tell", "right")
    notes = sorted({row.note for report in reports for row in report.rows if row.verdict != RIGHT})
    return {"verdict": min(verdicts, key=worst.index), "precision": pair.precision, "said": "; ".join(notes[:3])}


def drawn(draw, seed, precision):
    """The inputs that a seed draws, as a kernel takes them."""
    values = as_tuple(draw(np.random.default_rng([seed, 11])))
    return tuple(rounding.stored(x, precision) if is_float(np.asarray(x)) else x for x in values)


def would_hide(report, size):
    """Whether some row says that a mistake of this relative size would not have shown."""
    shown = [float(x) for row in report.rows for x in re.findall(r"an error of ([\d.e+-]+) of", row.note)]
    return any(least > size for least in shown)


def in_regimes(pair, mistake):
    """Whether a regime or size fails; those where the pair is known to be no derivative count apart."""
    tried = checked(pair, mistake, regimes="all", explain=False).regimes
    failed = [one for one in tried if one.fails]
    wrong = [str(one) for one in failed if one.regime not in pair.not_right]
    judged_at = [one for one in tried if one.verdict not in (NOT_TRIED, KINK)]
    return {
        "verdict": FOUND[bool(wrong)], "said": "; ".join(wrong[:3]), "points": len(judged_at),
        "cannot_tell": sum(one.verdict == UNCLEAR for one in tried), "not_right": len(failed) - len(wrong),
    }  # fmt: skip


def by_judge(pair, mistake):
    """The judge's verdict on a kernel's file, beside a reference's."""
    with tempfile.TemporaryDirectory() as folder:
        how = mistake.id if mistake else pair.name
        kernel = Path(folder) / f"{pair.theme}--{how}--{pair.precision}.py"
        kernel.write_text(pair.source(mistake), encoding="utf-8")
        shutil.copy(rounding.__file__, Path(folder) / "_bfloat16.py")
        references = Path(folder) / "references"
        references.mkdir()
        (references / f"{pair.theme}.py").write_text(pair.reference, encoding="utf-8")
        (task,) = tasks_of([str(kernel)], str(references), "float32")
        said = judging.judged(task, LIMITS)
    found = {"refused": "wrong"}.get(said["verdict"], said["verdict"])
    late = {"late": True} if said["seconds"] > LIMITS.seconds + MOMENT else {}
    return {"verdict": found, "precision": pair.precision, "said": "; ".join(said["causes"])} | late


def by_tolerance(pair, mistake):
    """What came of the formula's tolerances in each precision, with right kernels."""
    with loaded(pair) as evaluate:
        tensors = tolerances.tried(tolerances.Formula.of(pair, evaluate))
    failures = sum(each["failures"] for each in tensors)
    return {"verdict": FOUND[failures > 0], "said": f"{failures} failures" if failures else "", "tensors": tensors}


def by_derivation(pair, mistake):
    """Whether a line of a derivation is named, and whether it is the marked one."""
    cause = derivations.judge(derivations.read(pair.text, pair.name)).cause
    named = cause and cause.line
    return {"verdict": FOUND[cause is not None], "line": cause is not None and named == pair.line(None),
            "said": f"line {named}: {'; '.join(cause.details)}" if cause else ""}  # fmt: skip


ASKED = {
    "foreign": of_pair, "sources": of_pair, "verdicts": of_program, "precision": in_precision, "regimes": in_regimes,
    "regimes, foreign": in_regimes, "judge": by_judge, "tolerance": by_tolerance, "derivations": by_derivation,
    "people": people.of_person, "people_blind": people.of_person,
}  # fmt: skip
