"""The causes of the wrong gradients of a check: changes of the user's own source first, then patterns of the error."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache

from npformer.check.causes.clues import clues_of
from npformer.check.causes.elsewhere import Elsewhere
from npformer.check.causes.patterns import UNKNOWN, Diagnosis, diagnose, is_vague
from npformer.check.causes.search import SearchTarget, repairs_of
from npformer.check.causes.trial import plain
from npformer.check.checkable import Checkable
from npformer.check.look import MANY_ELEMENTS, CheckOptions, Look, look_at, rows_of
from npformer.check.oracles import Oracle
from npformer.check.report import WRONG, Report
from npformer.check.subject import Subject


def diagnosed(checked: Subject, look: Look, how: CheckOptions) -> Report:
    """The report with an explanation in each wrong row; patterns are read from small tensors alone."""
    clues = clues_of(checked.target, checked.inputs.mapped(lambda leaf: leaf.value), checked.options)
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
    point = SearchTarget(checked, look.upstreams, truths, look.directions, exact, others, verdicts)
    diagnoses = _with_lines(diagnoses, point, wrong)
    if isinstance(checked.target, Checkable) and checked.target.owner is None:
        diagnoses |= {
            t: d._replace(text=f"{d.text}; {checked.target.no_line}")
            for t, d in diagnoses.items()
            if d.cause == UNKNOWN.cause
        }
    return report.changed({t: {"cause": d.cause, "diagnosis": d.text} for t, d in diagnoses.items()})


def _with_lines(diagnoses: Mapping[str, Diagnosis], point: SearchTarget, wrong: Sequence[str]) -> dict[str, Diagnosis]:
    """The diagnoses of the wrong tensors, with the change that makes them right, or what else is known."""
    vague = [tensor for tensor in wrong if is_vague(diagnoses.get(tensor))]
    repairs, remarks = repairs_of(point, wrong, is_brief=not vague)
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
