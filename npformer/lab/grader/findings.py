"""Findings, one line each, with the numbers that show them; right gradients that are returned in another order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from npformer.check.measures import largest
from npformer.io.percent import percent
from npformer.io.terminal import counted
from npformer.lab.grader.exercises import Exercise
from npformer.lab.grader.judge import Compared, Result, compare, kind
from npformer.lab.grader.source import Source
from npformer.lab.grader.tree import as_tuple, leaves, named
from npformer.typing import HostArray

FEW = 5  # the most numbers in an excerpt
#: Possible errors of a tensor, the least severe first.
SEVERITY = ("", "precision", "numbers", "not finite", "kind", "shape")
#: The signs of a measured gradient in words; see child/measuring.py.
SIGNS = {
    "complex": "computes with complex numbers, as a complex step does",
    "forward": "calls {}_forward, or a copy of it, again and again",
    "moved": "evaluates a function again and again with one number moved",
    "unwatched": "removes the grader's sys.setprofile",
}

#: Of inputs with and without an exception, or another number of gradients: the latter's numbers may be wrong, too.
SO = ("so", "not so")


@dataclass(frozen=True)
class Finding:
    """One line of the report, and indented lines below it."""

    name: str  # "forward", a gradient, …
    ok: bool
    text: str
    details: tuple[str, ...] = ()
    lacks: str = "is not right"  # the verdict's words, if the finding does not hold


def forward_findings(exercise: Exercise, source: Source, outcomes: Sequence[Result]) -> list[Finding]:
    """Whether the forward computes the exercise's function."""
    name = "forward"
    complaints = [t.complaint for t in outcomes if t.complaint and not t.outputs]
    if complaints:
        return [Finding(name, False, complaints[0])]
    failed = [t for t in outcomes if t.failure and t.failure["step"] == "forward" and not t.late]
    if failed:
        return [_failure(exercise, source, failed, "forward")]
    bad = [t for t in outcomes if t.outputs and not t.forward_ok]
    if bad:
        worst = next((t for t in bad if t.other_forward), bad[0])
        output, compared = max(worst.outputs.items(), key=lambda item: SEVERITY.index(item[1].problem))
        imprecise = compared.problem == "precision"
        text = f"{output} {_imprecise(compared)}" if imprecise else f"does not compute the exercise's {output}"
        return [Finding(name, False, text + _where(bad, outcomes), _numbers(output, worst, compared), _lacks(compared))]
    done = [t for t in outcomes if t.outputs]
    return [Finding(name, True, f"computes what it should, on {counted(len(done), 'input')}")] if done else []


def backward_findings(exercise: Exercise, source: Source, outcomes: Sequence[Result]) -> list[Finding]:
    """Each gradient, or the reason why it was not computed."""
    tried = [t for t in outcomes if t.outputs and not t.late]
    findings = []
    if tried and all(t.blank for t in tried):
        return [Finding("backward", False, f"{exercise.name}_backward is still empty: fill it in")]
    order = order_of(exercise, tried)
    if order.held:
        findings.append(Finding("order", False, order.text(exercise)))
    complaints = [t for t in tried if t.complaint]
    if complaints and not order.held:
        findings.append(Finding("backward", False, complaints[0].complaint + _where(complaints, tried, SO)))
    failed = [t for t in tried if t.failure and t.failure["step"] == "backward"]
    if failed:
        findings.append(_failure(exercise, source, failed, "backward", tried))
    for name in named(exercise.gradients, tried[0].case.gradients) if tried else ():
        if name.partition(".")[0] not in order.held:
            findings += _gradient(name, [t for t in tried if name in t.gradients])
    return findings


def _gradient(name: str, outcomes: Sequence[Result]) -> list[Finding]:
    if not outcomes:
        return []
    bad = [t for t in outcomes if t.gradients[name].problem]
    is_of_own = any(t.own_forward for t in outcomes)
    if not bad:
        of = "is the derivative of your own forward" if is_of_own else "is right"
        return [Finding(name, True, of)]
    worst = max(bad, key=lambda t: SEVERITY.index(t.gradients[name].problem))  # the first case with the worst error
    compared = worst.gradients[name]
    measured = " of your own forward (measured)" if worst.own_forward else ""
    words = {
        "shape": f"has the shape {compared.claimed.shape}, expected {compared.truth.shape}"
        if compared.problem == "shape"
        else "",
        "kind": f"expected an array {compared.truth.shape}, got {kind(compared.claimed)}",
        "not finite": "has entries that are NaN or infinite",
        "precision": _imprecise(compared) if compared.problem == "precision" else "",
        "numbers": f"is not the derivative{measured}; off by {_percent(compared.error)}",
    }
    text = words[compared.problem] + _where(bad, outcomes)
    return [Finding(name, False, text, _numbers(name, worst, compared), _lacks(compared))]


def _lacks(compared: Compared) -> str:
    return "is not precise" if compared.problem == "precision" else "is not right"


def _imprecise(compared: Compared) -> str:
    """The words for numbers that are right, but not to float64 precision."""
    if compared.single:
        return "is right, but computed in float32; expected float64 precision"
    why = "computed in float32, or measured by differences" if compared.error > 1e-9 else "measured by differences"
    off = f"off by {compared.error:.1e} of its largest entry"
    return f"is right, but not to float64 precision ({off}): is it {why}?"


def conduct_findings(exercise: Exercise, outcomes: Sequence[Result]) -> list[Finding]:
    """Whether the pair is pure: changes no input, gives the same answer twice, derives instead of measuring."""
    findings = []
    changed = sorted({name for t in outcomes for name in t.changed})
    if changed:
        text = f"writes into its inputs: {', '.join(changed)}; other code still needs them, so work on a new array"
        findings.append(Finding("inputs", False, text))
    elif any(t.outputs for t in outcomes):
        findings.append(Finding("inputs", True, "are unchanged"))
    ran = [t for t in outcomes if t.gradients]
    if any(not t.stable for t in ran):
        text = "a second backward with the same cache gives other numbers: the first one writes into the cache"
        findings.append(Finding("cache", False, text))
    signs = [sign for sign in SIGNS if any(sign in t.measuring for t in ran)]
    if signs:
        text = f"{SIGNS[signs[0]].format(exercise.name)}: a gradient is to be derived here, not measured"
        findings.append(Finding("backward", False, text))
    return findings


def _failure(
    exercise: Exercise, source: Source, failed: Sequence[Result], step: str, among: Sequence[Result] | None = None
) -> Finding:
    """An exception in the learner's code, its line, and the shapes involved."""
    event = failed[0].failure or {}
    text = f"{exercise.name}_{step} stops with {event['type']}{_where(failed, among, SO)}"
    details = [event["message"].splitlines()[0] if event["message"] else "(without a message)"]
    details += filter(None, [source.at(event["line"])])
    details.append("there: " + ", ".join(_shapes(exercise, failed[0])))
    return Finding(step, False, text, tuple(details))


def _shapes(exercise: Exercise, outcome: Result) -> list[str]:
    """The shapes of the inputs and of the upstream gradients."""
    named_arrays = list(zip(exercise.arguments, outcome.case.arguments, strict=True))
    named_arrays += list(named(exercise.upstream, outcome.case.upstream).items())
    return [f"{name} {x.shape}" for name, x in named_arrays if isinstance(x, np.ndarray)]


def _where(
    bad: Sequence[Result], outcomes: Sequence[Result] | None, words: tuple[str, str] = ("wrong", "right")
) -> str:
    """The wrong inputs, if not all are wrong: often the whole diagnosis; words: for these, and for the others."""
    if outcomes is None or len(bad) == len(outcomes):
        return ""
    wrong = ", ".join(f"“{t.case.label}”" for t in bad)
    if len(bad) <= len(outcomes) - len(bad):
        return f"; only on {wrong}"
    right = ", ".join(f"“{t.case.label}”" for t in outcomes if t not in bad)
    return f"; {words[0]} on {wrong}, {words[1]} on {right}"


def _numbers(name: str, outcome: Result, compared: Compared) -> tuple[str, ...]:
    """The row of the worst place, expected and given."""
    if compared.problem not in ("numbers", "not finite"):
        return (f"on “{outcome.case.label}”",)
    claimed, truth, index = np.asarray(compared.claimed), compared.truth, compared.worst
    if truth.ndim == 0:
        return (f"expected {float(truth):.6g}, got {float(claimed):.6g}, on “{outcome.case.label}”",)
    start = max(0, min(index[-1] - FEW // 2, truth.shape[-1] - FEW))
    place = ", ".join([*map(str, index[:-1]), f"{start}:{min(start + FEW, truth.shape[-1])}"])
    short = name.rsplit(".", 1)[-1]
    head = f"{short}[{place}] on “{outcome.case.label}”, worst at [{', '.join(map(str, index))}]"
    return head, f"  expected {_row(truth[index[:-1]], start)}", f"  yours    {_row(claimed[index[:-1]], start)}"


def _row(x: HostArray, start: int) -> str:
    return " ".join(f"{value:>10.4g}" for value in x[start : start + FEW].tolist())


def _percent(error: float) -> str:
    if error >= 10:
        return f"a factor of {error:.0f} of its largest entry"
    return (
        f"{percent(error, 0 if error >= 0.1 else 2)} of its largest entry"
        if error >= 1e-4
        else f"{error:.1e} of its largest entry"
    )


class Order(NamedTuple):
    """Where the right gradients stand; a place has the name of the gradient that belongs there."""

    held: dict[str, str]  # place -> the gradient that stands there, for those in each other's places
    right: tuple[str, ...]  # the gradients in their own places

    def text(self, exercise: Exercise) -> str:
        """The finding in words."""
        came = [self.held.get(place, place) for place in exercise.gradients if place in {*self.held, *self.right}]
        wanted = ", ".join(exercise.gradients)
        if len(came) == len(exercise.gradients):
            return f"these are right, in the order {', '.join(came)}; return them in the order {wanted}"
        return f"{' and '.join(self.held.values())} are right, in each other's places; the order is {wanted}"


def order_of(exercise: Exercise, outcomes: Sequence[Result]) -> Order:
    """The order on every case in which backward returned as many gradients as were asked for."""
    returned = [t for t in outcomes if len(t.returned) == len(exercise.gradients) and not t.other_forward]
    if not returned:
        return Order({}, ())
    fits = [_fits(exercise, outcome) for outcome in returned]
    names = exercise.gradients
    held = {place: {name for name in names if all(name in each[place] for each in fits)} for place in names}
    right = tuple(place for place in held if place in held[place])
    left = held.keys() - set(right)
    places = {place: min(held[place] & left) for place in exercise.gradients if place in left and held[place] & left}
    while places.keys() != set(places.values()):  # a gradient stands in two places, or where nothing was lost
        places = {place: name for place, name in places.items() if place in places.values() and name in places}
    return Order(places, right)


def _fits(exercise: Exercise, outcome: Result) -> dict[str, set[str]]:
    """Place -> the gradients that what stands there equals."""
    truths = as_tuple(outcome.case.gradients)
    most = largest(np.asarray(x) for truth in truths for _, x in leaves("", truth))
    named = dict(zip(exercise.gradients, truths, strict=True))
    return {
        place: {name for name, truth in named.items() if _equal(came, truth, most)}
        for place, came in zip(exercise.gradients, outcome.returned, strict=True)
    }


def _equal(came: Any, truth: Any, most: float) -> bool:
    ours, theirs = dict(leaves("", truth)), dict(leaves("", came))
    return ours.keys() == theirs.keys() and not any(
        compare(theirs[name], np.asarray(x), most).problem for name, x in ours.items()
    )
