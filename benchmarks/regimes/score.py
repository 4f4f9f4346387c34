"""The verdicts on one pair in all regimes and sizes, and their counts."""

import time
import warnings
from collections import Counter

import numpy as np

import npformer as npf
from benchmarks.foreign.listed import RIGHT
from benchmarks.regimes.listed import BUGS, NOT_RIGHT
from npformer.check.report import KINK, NOT_TRIED, UNCLEAR

KINDS = ("bug", "twin", "foreign")


def listed():
    """(kind, name, check) of each pair; check() gives its report."""
    for bug in BUGS:
        yield "bug", bug.name, lambda bug=bug: bug.judged(bug.wrong, regimes="all", explain=False)
        yield "twin", bug.name, lambda bug=bug: bug.judged(bug.backward, regimes="all", explain=False)
    for pair in RIGHT:
        yield "foreign", pair.name, lambda pair=pair: of_foreign(pair)


def of_foreign(pair):
    """The report on a right foreign pair."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        how = {**pair.check, **pair.options}
        return npf.gradcheck((pair.forward, pair.backward), *pair.inputs, regimes="all", explain=False, **how)


def judged(number):
    """The pair of this number in all regimes and sizes, for JSON."""
    kind, name, check = list(listed())[number]
    began = time.perf_counter()
    tried = check().regimes
    known = NOT_RIGHT.get(name, {}) if kind == "foreign" else {}
    wrong = [one for one in tried if one.failed]
    return {
        "kind": kind, "name": name, "verdicts": dict(Counter(one.verdict for one in tried)),
        "wrong": [str(one) for one in wrong if one.regime not in known],
        "not_right": [f"{one}: {known[one.regime]}" for one in wrong if one.regime in known],
        "cannot_tell": [f"{one}: {one.note}" for one in tried if one.verdict == UNCLEAR],
        "seconds": round(time.perf_counter() - began, 1),
    }  # fmt: skip


def summary(rows):
    """Counts of each kind."""
    found = {}
    for kind in KINDS:
        chosen = [row for row in rows if row["kind"] == kind]
        verdicts = sum((Counter(row["verdicts"]) for row in chosen), Counter())
        judged_points = sum(verdicts.values()) - verdicts[NOT_TRIED] - verdicts[KINK]
        found[kind] = {
            "pairs": len(chosen), "called_wrong": sum(bool(row["wrong"]) for row in chosen),
            "not_right": sum(bool(row["not_right"]) for row in chosen), "points": judged_points,
            "cannot_tell": verdicts[UNCLEAR], "kinks": verdicts[KINK], "not_tried": verdicts[NOT_TRIED],
        }  # fmt: skip
    return found
