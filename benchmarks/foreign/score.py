"""Gradcheck's verdict on a pair, and whether it is correct."""

import warnings
from dataclasses import dataclass

import npformer as npf
from benchmarks.foreign.pair import KINDS, Foreign, Wrong
from npformer.check.report import RIGHT, WRONG

#: The kinds that each diagnosis label stands for, if it is no kind itself: labels of tried mistakes (mutants.py) and
#: of patterns (diagnosis.py).
FAMILIES = {
    "drop a term": {"missing term"},
    "change a sign": {"sign"},
    "drop a factor": {"missing factor", "factor"},
    "scale by 2": {"factor"},
    "swap operands": {"transposed", "sign", "wrong factor"},
    "drop a transpose": {"transposed"},
    "shift an axis": {"summed axis"},
    "sum to mean": {"summed axis"},
    "flip a choice": {"wrong branch"},
    "drop the choice": {"wrong branch"},
    "swap outputs": {"swapped outputs"},
    "return zero": {"zero"},
    "not zero": {"extra term"},
    "wrong at repeated tokens": {"not accumulated"},
    "wrong at masked positions": {"wrong branch", "wrong place"},
    "wrong at the first position": {"wrong place"},
    "wrong at the last position": {"wrong place"},
    "zero in places": {"zero", "wrong place"},
    "axis summed twice": {"summed axis"},
    "term missing": {"missing term"},
    "ignored output": {"missing term"},  # all that comes by that output
    "heads exchanged": {"reshaped", "wrong place"},
    "heads merged wrongly": {"reshaped"},
    "extra factor": {"factor", "wrong factor"},
}
UNEXPLAINED = ("", "unknown")
#: All gradients are right, yet the report fails: something else about the pair is wrong.
PROBLEM = "problem"


def family(cause):
    """The kinds that a row's cause names. Raises ValueError for an unknown label."""
    if cause.startswith("scaled by "):
        return {"factor"}
    if cause in KINDS:
        return {cause}
    if cause not in FAMILIES:
        raise ValueError(f"cause: expected one of {', '.join(FAMILIES)}, got {cause!r}; name its family in score.py")
    return FAMILIES[cause]


@dataclass(frozen=True)
class Outcome:
    """The verdict on one pair. cause_is: "right", "false" or "unknown", for a wrong pair that is called WRONG."""

    name: str
    pair: str  # name of the right pair
    origin: str  # "right", "by hand" or "mutant"
    verdict: str  # gradcheck's: "right" only if all rows are; PROBLEM; "raised" if gradcheck raised an exception
    cause: str = ""
    cause_is: str = ""
    message: str = ""  # text of the exception or of the problems

    @property
    def is_failure(self):
        """Whether the verdict is not the desired one: right called right, or wrong called WRONG with its true cause."""
        if self.origin == "right":
            return self.verdict != RIGHT
        return self.verdict != WRONG or self.cause_is != "right"


def check(pair, backward, dtype):
    """gradcheck of (forward, backward); in float32, with the right pair in float64 as the reference."""
    how = dict(pair.check)
    if dtype == "float32":
        how["reference"] = (pair.forward, pair.backward)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a wrong backward may divide by 0
        return npf.gradcheck((pair.forward, backward), *pair.cast(dtype), **how, **pair.options)


def outcome(pair: Foreign | Wrong, dtype="float64"):
    """Gradcheck's outcome on a right or a wrong pair."""
    right = pair if isinstance(pair, Foreign) else pair.pair
    origin = "right" if isinstance(pair, Foreign) else "by hand" if pair.by_hand else "mutant"
    try:
        report = check(right, pair.backward, dtype)
    except Exception as error:
        return Outcome(pair.name, right.name, origin, "raised", message=f"{type(error).__name__}: {error}")
    verdict = verdict_of(report)
    if isinstance(pair, Foreign) or verdict != WRONG:
        return Outcome(pair.name, right.name, origin, verdict, message="; ".join(report.problems))
    cause = next((row.cause for row in report.rows if row.verdict == WRONG and row.cause not in UNEXPLAINED), "")
    return Outcome(pair.name, right.name, origin, verdict, cause, judged(cause, pair.kinds))


def verdict_of(report):
    """WRONG if any row is WRONG, else the first other verdict, else PROBLEM if the report has one, else right."""
    verdicts = [row.verdict for row in report.rows]
    rest = RIGHT if report.ok else PROBLEM
    return WRONG if WRONG in verdicts else next((v for v in verdicts if v != RIGHT), rest)


def judged(cause, kinds):
    """Whether a cause names one of the true kinds: "right", "false", or "unknown" if it names nothing."""
    if cause in UNEXPLAINED:
        return "unknown"
    return "right" if family(cause) & kinds else "false"


def summary(outcomes):
    """Counts for each origin: pairs, each verdict, and causes that are right, false or unknown.

    told apart: the wrong pair is called WRONG and its right pair is called right.
    """
    tally = {}
    trusted = {outcome.pair for outcome in outcomes if outcome.origin == "right" and outcome.verdict == RIGHT}
    for outcome in outcomes:
        counts = tally.setdefault(outcome.origin, {"pairs": 0})
        keys = ["pairs", outcome.verdict] + ([f"cause {outcome.cause_is}"] if outcome.cause_is else [])
        keys += ["told apart"] if outcome.verdict == WRONG and outcome.pair in trusted else []
        for key in keys:
            counts[key] = counts.get(key, 0) + 1
    return tally


def as_dict(each):
    """An outcome for JSON, without empty fields."""
    return {key: value for key, value in vars(each).items() if value}
