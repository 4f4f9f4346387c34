"""What the gradient check says of a bug: the diagnosis of its first wrong tensor.

It is asked after the bug was taken out again: the changed functions go to ``gradcheck`` as somebody
else's pair, so that the correct backward, of which mistakes are tried, is the correct one.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from npformer import functional
from npformer.backend import Backend, Pair
from npformer.lab.museum.exhibit import Exhibit
from npformer.lab.museum.patch import changed_functions, patched
from npformer.proof import Case, catalogue, gradcheck
from npformer.proof.diagnosis import UNKNOWN

#: Larger layers take seconds to be checked element by element.
_LARGE = ("Stack", "Decoder")


def diagnosis_of(exhibit: Exhibit, problems: dict[str, str]) -> str:
    """A sentence: the gradient check's diagnosis if it has one, else what the first failing check found."""
    if not problems:
        return ""
    first = next(iter(problems))
    kind = first.removeprefix("gradient of ")
    if kind != first:
        for case in catalogue():
            if case.group != "model" and case.name.partition(":")[0] == kind and not kind.startswith(_LARGE):
                found = _diagnosis(exhibit, case)
                if found:
                    return found
    return problems[first]


def _diagnosis(exhibit: Exhibit, case: Case) -> str:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return _by_stranger(exhibit, case) or _in_place(exhibit, case)
        except Exception:
            return ""  # it crashes: what the check found says more


def _by_stranger(exhibit: Exhibit, case: Case) -> str:
    """The diagnosis of the changed pair beside the correct one; "" if the exhibit does not change this pair itself."""
    if case.group != "op":
        return ""
    op = case.name.partition(":")[0]
    changed = {function.__name__: function for function in changed_functions(exhibit.edits)}
    names = f"{op}_forward", f"{op}_backward"
    if not changed.keys() & set(names):
        return ""
    forward, backward = (changed.get(name, getattr(functional, name)) for name in names)
    return _first(gradcheck((forward, backward), *case.inputs, **_options(case)))


def _in_place(exhibit: Exhibit, case: Case) -> str:
    with patched(exhibit.edits) as backend:
        return _first(gradcheck(_target(case, backend), *case.inputs, device=backend.device, **_options(case)))


def _target(case: Case, backend: Backend) -> Any:
    target = case.build(backend)
    return target if not isinstance(target, Pair) else (target.forward, target.backward)


def _options(case: Case) -> dict[str, Any]:
    return dict(case.options) | {"allow_length_one": True}


def _first(report: Any) -> str:
    """The first diagnosis that is one, with the tensors that it is about; else the first WRONG row."""
    wrong = [row for row in report.rows if not row.ok]
    for row in wrong:
        if row.diagnosis and row.cause != UNKNOWN.cause:
            same = [other.tensor for other in wrong if other.diagnosis == row.diagnosis]
            return f"{', '.join(same)}: {row.diagnosis}"
    return ""
