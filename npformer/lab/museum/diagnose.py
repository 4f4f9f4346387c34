"""The gradient check's diagnosis of a bug, from its first wrong tensor.

It runs after the bug was removed again: the changed functions go to ``gradcheck`` as a user's
pair, so that the mistakes tried are those of the correct backward.
"""

from __future__ import annotations

import warnings

import numpy as np

from npformer import functional
from npformer.check import Case, Report, catalogue, gradcheck
from npformer.check.diagnosis.patterns import UNKNOWN
from npformer.lab.mistake import Mistake
from npformer.lab.museum.patch import changed_functions, patched

#: Checking larger layers element by element takes seconds.
_LARGE = ("EncoderStack", "Decoder", "Transformer")


def diagnosis_of(bug: Mistake, problems: dict[str, str]) -> str:
    """A sentence: the gradient check's diagnosis if there is one, else the first failing check's finding."""
    if not problems:
        return ""
    first = next(iter(problems))
    right_forward = not any(name.startswith("values of") for name in problems)
    kinds = [name.removeprefix("gradient of ") for name in problems if name.startswith("gradient of ")]
    if kinds and right_forward and not kinds[0].startswith(_LARGE):
        for case in catalogue():
            if case.group != "model" and case.name.partition(":")[0] == kinds[0]:
                diagnosis = _diagnosis(bug, case)
                if diagnosis:
                    return diagnosis
    return problems[first]


def _diagnosis(bug: Mistake, case: Case) -> str:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return _by_stranger(bug, case) if case.group == "op" else _in_place(bug, case)
        except Exception:
            return ""  # it crashes: the check's finding says more


def _by_stranger(bug: Mistake, case: Case) -> str:
    """The diagnosis of the changed pair, compared with the correct one; "" if the bug changes something inside it."""
    op = case.name.partition(":")[0]
    changed = {function.__name__: function for function in changed_functions(bug.edits)}
    names = f"{op}_forward", f"{op}_backward"
    if not changed.keys() & set(names):
        return ""
    forward, backward = (changed.get(name, getattr(functional, name)) for name in names)
    return _first(gradcheck((forward, backward), *case.inputs, allow_length_one=True, **case.options))


def _in_place(bug: Mistake, case: Case) -> str:
    with patched(bug.edits) as backend:
        options = dict(case.options) | {"allow_length_one": True}
        return _first(gradcheck(case.build(backend), *case.inputs, device=backend.device, **options))


def _first(report: Report) -> str:
    """The first diagnosis with a cause, and its tensors; "" if there is none."""
    wrong = [row for row in report.rows if not row.ok]
    for row in wrong:
        if row.diagnosis and row.cause != UNKNOWN.cause:
            same = [other.tensor for other in wrong if other.diagnosis == row.diagnosis]
            return f"{', '.join(same)}: {row.diagnosis}"
    return ""
