"""The check at one point, with the causes of wrong gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from npformer.check import behaviour
from npformer.check.causes import Elsewhere, Point, plain, repairs_of
from npformer.check.causes.clues import all_layers, clues_of, with_mistakes
from npformer.check.causes.patterns import UNKNOWN, Clues, Diagnosis, diagnose, is_vague
from npformer.check.checkable import Checkable, is_ours
from npformer.check.look import MANY_ELEMENTS, CheckOptions, Look, look_at, proving_nothing, rows_of, silenced
from npformer.check.oracles import Oracle
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
    if how.why and "not deterministic" not in str(report.problems) and any(r.verdict == WRONG for r in report.rows):
        clues = with_mistakes(clues_of(target, inputs, how.options), checked, look.upstreams[0])
        report = _diagnosed(checked, look, how, clues)
    blind = why_blind({n: checked.tensors[n] for n in checked.input_names if n in checked.tensors})
    report = report.changed({row.tensor: _of_none(row) for row in report.rows if row.tensor in without})
    return proving_nothing([row for row in report.rows if row.ok], report, blind) if blind else report


def without_ignored(look: Look, checked: Subject, how: CheckOptions) -> Look:
    """The look, whose wrong rows say so if all would be right but for an output whose gradient backward ignores."""
    wrong, count = [row for row in look.report.rows if row.verdict == WRONG], len(look.upstreams[0])
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
    return {"note": f"backward returned None for {row.tensor}, whose gradient {what}", "cause": "", "diagnosis": ""}


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


def _diagnosed(checked: Subject, look: Look, how: CheckOptions, clues: Clues) -> Report:
    """The report with an explanation in each wrong row; patterns are read from small tensors alone."""
    report, checked = look.report, plain(checked)
    oracle = Oracle(checked, look.upstreams, look.is_complex)
    wrong = [row.tensor for row in report.rows if row.verdict == WRONG]
    small = [row for row in report.rows if row.elements <= MANY_ELEMENTS]
    known = [row.tensor for row in small if not row.by_direction or not row.ok]
    truth = {t: (oracle.every_element(t) if look.directions else look.evidence[t]).truth[0] for t in known}
    diagnoses = diagnose({tensor: look.claims[0][tensor] for tensor in known}, truth, clues)

    def verdicts(point: Subject) -> dict[str, str]:
        """The verdicts with the backward as it is now, along directions at another point."""
        if point is not checked:
            return look_at(point, replace(how, elementwise=False)).verdicts
        claims = [checked.gradients(upstream) for upstream in look.upstreams]
        return {row.tensor: row.verdict for row in rows_of(oracle, look.evidence, claims, look.directions, how)}

    truths = [{t: evidence.truth[k] for t, evidence in look.evidence.items()} for k in range(len(look.upstreams))]
    others = cache(lambda: list(_alike(checked, wrong, how.seed, verdicts)))
    exact = {t for t, evidence in look.evidence.items() if evidence.by_complex is not None}
    point = Point(checked, look.upstreams, truths, look.directions, exact, others, verdicts)
    diagnoses = _with_lines(diagnoses, point, wrong)
    if isinstance(clues.target, Checkable) and clues.target.owner is None:
        diagnoses |= {
            t: d._replace(text=f"{d.text}; {clues.target.no_line}")
            for t, d in diagnoses.items()
            if d.cause == UNKNOWN.cause
        }
    return report.changed({t: {"cause": d.cause, "diagnosis": d.text} for t, d in diagnoses.items()})


def _with_lines(diagnoses: Mapping[str, Diagnosis], point: Point, wrong: Sequence[str]) -> dict[str, Diagnosis]:
    """The diagnoses of the wrong tensors, with the change that makes them right, or what else is known.

    A clear one of npformer's own code has its line, or needs none.
    """
    vague = [tensor for tensor in wrong if is_vague(diagnoses.get(tensor))]
    target = point.subject.target
    parts = [type(layer) for layer in all_layers(target)] or [target]
    is_own = not isinstance(target, Checkable) and all(is_ours(getattr(part, "backward", None)) for part in parts)
    repairs, remarks = ([], []) if is_own and not vague else repairs_of(point, wrong, is_brief=not vague)
    known = {tensor: diagnoses.get(tensor, UNKNOWN) for tensor in wrong}
    for tensor in wrong:
        repair = next((one for one in repairs if tensor in one.fixes), None)
        if repair is None and tensor in vague:
            known[tensor] = known[tensor]._replace(text="; ".join([known[tensor].text, *remarks]))
        elif repair is not None:
            cause, text = known[tensor]
            if tensor in vague or cause == repair.cause:
                cause = text = repair.cause
            known[tensor] = Diagnosis(cause, f"{text}: {repair.place}")
    return known


def _alike(
    checked: Subject, wrong: Sequence[str], seed: int, verdicts: Callable[[Subject], dict[str, str]]
) -> Iterator[Subject]:
    """Other points where what is right is right, too: elsewhere the backward may not be meant to be."""
    for other in Elsewhere(checked, seed).subjects():
        with suppress(Exception):  # a step out of the forward's domain
            if all(verdict != WRONG or tensor in wrong for tensor, verdict in verdicts(other).items()):
                yield other
