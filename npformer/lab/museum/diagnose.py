"""What the gradient check says of a bug: the diagnosis of its first wrong tensor.

It is asked after the bug was taken out again: the changed functions go to ``gradcheck`` as somebody
else's pair, so that the correct backward, of which mistakes are tried, is the correct one.
"""

from __future__ import annotations

import warnings

import numpy as np

from npformer import functional
from npformer.lab.museum.bug import Bug
from npformer.lab.museum.patch import changed_functions, patched
from npformer.proof import Case, Report, catalogue, gradcheck
from npformer.proof.diagnosis import UNKNOWN

#: Larger layers take seconds to be checked element by element.
_LARGE = ("EncoderStack", "Decoder", "Transformer")


def diagnosis_of(bug: Bug, problems: dict[str, str]) -> str:
    """A sentence: the gradient check's diagnosis if it has one, else what the first failing check found."""
    if not problems:
        return ""
    first = next(iter(problems))
    right_forward = not any(name.startswith("values of") for name in problems)
    kinds = [name.removeprefix("gradient of ") for name in problems if name.startswith("gradient of ")]
    if kinds and right_forward and not kinds[0].startswith(_LARGE):
        for case in catalogue():
            if case.group != "model" and case.name.partition(":")[0] == kinds[0]:
                found = _diagnosis(bug, case)
                if found:
                    return found
    return problems[first]


def _diagnosis(bug: Bug, case: Case) -> str:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return _by_stranger(bug, case) if case.group == "op" else _in_place(bug, case)
        except Exception:
            return ""  # it crashes: what the check found says more


def _by_stranger(bug: Bug, case: Case) -> str:
    """The diagnosis of the changed pair beside the correct one; "" if the bug changes something inside it."""
    op = case.name.partition(":")[0]
    changed = {function.__name__: function for function in changed_functions(bug.edits)}
    names = f"{op}_forward", f"{op}_backward"
    if not changed.keys() & set(names):
        return ""
    forward, backward = (changed.get(name, getattr(functional, name)) for name in names)
    return _first(gradcheck((forward, backward), *case.inputs, allow_length_one=True, **case.options))


def _in_place(bug: Bug, case: Case) -> str:
    with patched(bug.edits) as backend:
        options = dict(case.options) | {"allow_length_one": True}
        return _first(gradcheck(case.build(backend), *case.inputs, device=backend.device, **options))


def _first(report: Report) -> str:
    """The first diagnosis that says something, with the tensors that it is about; "" if there is none."""
    wrong = [row for row in report.rows if not row.ok]
    for row in wrong:
        if row.diagnosis and row.cause != UNKNOWN.cause:
            same = [other.tensor for other in wrong if other.diagnosis == row.diagnosis]
            return f"{', '.join(same)}: {row.diagnosis}"
    return ""
