"""The check at one point, with the causes of wrong gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from npformer.check import behaviour
from npformer.check.look import CheckOptions, Look, look_at, proving_nothing, silenced
from npformer.check.report import NOTHING, RIGHT, WRONG, Report, Row
from npformer.check.rounding.float64 import without_lost_digits
from npformer.check.subject import Subject
from npformer.check.vacuity import not_finite, refuse_length_one, why_blind
from npformer.errors import ShapeError

IGNORED = "ignored output"


def at_one_point(target: Any, inputs: Sequence[Any], how: CheckOptions) -> Report:
    """The whole check at one point."""
    checked = Subject(target, inputs, how.options, how.device, how.names, structure=how.structure)
    _expect_something(checked)
    if not how.allow_length_one:
        refuse_length_one(inputs, checked.input_names)
    if (nowhere := not_finite(checked)) is not None:
        return replace(nowhere, notes=tuple(behaviour.notes(checked)))
    look = look_at(checked, how)
    if how.in_regime:
        look = look._replace(report=without_lost_digits(look, checked, how))
    look = without_ignored(look, checked, how)
    report, without = look.report, checked.inputs.none
    if report.rows and all(row.verdict == NOTHING for row in report.rows):
        return report
    if any(row.cause == IGNORED for row in report.rows):
        return report
    if how.why and "not deterministic" not in str(report.problems) and report.wrong:
        from npformer.check.causes.diagnosis import diagnosed  # its modules are loaded only if they are needed

        report = diagnosed(checked, look, how)
    blind = why_blind({n: checked.tensors[n] for n in checked.input_names if n in checked.tensors})
    report = report.changed({row.tensor: _of_none(row) for row in report.rows if row.tensor in without})
    return proving_nothing([row for row in report.rows if row.ok], report, blind) if blind else report


def without_ignored(look: Look, checked: Subject, how: CheckOptions) -> Look:
    """The look, whose wrong rows say so if all would be right but for an output whose gradient backward ignores."""
    wrong, count = look.report.wrong, len(look.upstreams[0])
    if not wrong or count < 2:
        return look
    alone = (silenced(look.upstreams[0], set(range(count)) - {i}) for i in range(count))
    ignored = [i for i, r in enumerate(alone) if not any(map(np.any, checked.gradients(r).values()))]
    named = tuple(f"output {checked.kept[i]}" for i in ignored if np.any(look.upstreams[0][i]))
    if not named or len(ignored) == count:
        return look
    known = (how.constant,) if isinstance(how.constant, str | int) else tuple(how.constant)
    if not all(row.ok for row in look_at(checked, replace(how, constant=(*known, *named))).report.rows):
        return look
    text = f"backward ignores the gradient of {', '.join(named)}, and is right without; say constant={named} if it may"
    return look._replace(report=look.report.changed({r.tensor: {"cause": IGNORED, "diagnosis": text} for r in wrong}))


def _of_none(row: Row) -> dict[str, str]:
    """What the row of a tensor says for which backward returned None."""
    if row.verdict not in (RIGHT, WRONG):
        return {}
    what = "is 0" if row.ok else "is not 0; name it in constant= if it wants none"
    note = {"note": f"backward returned None for {row.tensor}, whose gradient {what}"}
    return note | ({} if "line " in row.diagnosis else {"cause": "", "diagnosis": ""})


def _expect_something(checked: Subject) -> None:
    """Raise ShapeError if there is no tensor to check, or an empty one."""
    if not checked.tensors:
        raise ShapeError(
            "inputs: expected at least one array of floats, or a target with parameters, got nothing to check; "
            "integers and lists are passed on unchecked: np.asarray(x, dtype=float) makes an array of floats"
        )
    for tensor, value in checked.tensors.items():
        if value.size == 0:
            raise ShapeError(
                f"{tensor}: expected at least one element, got {value.shape}; an empty check proves nothing"
            )
