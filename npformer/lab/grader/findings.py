"""Findings, one line each, with the numbers that show them; right gradients that are returned in another order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from npformer.check.measures import worst_at
from npformer.io.percent import percent
from npformer.io.terminal import counted
from npformer.lab.grader.exercises import Exercise
from npformer.lab.grader.judge import Compared, Result, compared, kind
from npformer.lab.grader.source import Source
from npformer.lab.grader.tree import as_tuple, named
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


class Finding(NamedTuple):
    """One line of the report, and indented lines below it."""

    name: str  # "forward", a gradient, …
    ok: bool
    text: str
    details: Sequence[str] = ()
    lacks: str = "is not right"  # the verdict's words, if the finding does not hold


def forward_findings(exercise: Exercise, source: Source, outcomes: Sequence[Result]) -> Iterator[Finding]:
    """Whether the forward computes the exercise's function."""
    complaints = [t.complaint for t in outcomes if t.complaint and not t.outputs]
    failed = [t for t in outcomes if t.failure and t.failure["step"] == "forward" and not t.late]
    done = [t for t in outcomes if t.outputs]
    bad = [t for t in done if any(c.problem for c in t.outputs.values())]
    if complaints:
        yield Finding("forward", False, complaints[0])
    elif failed:
        yield _failure(exercise, source, failed, "forward", failed)
    elif bad:
        worst = next((t for t in bad if t.other_forward), bad[0])
        output, c = max(worst.outputs.items(), key=lambda item: SEVERITY.index(item[1].problem))
        text = f"{output} {_imprecise(c)}" if c.problem == "precision" else f"does not compute the exercise's {output}"
        yield _wrong("forward", text + _where(bad, outcomes), output, worst, c)
    elif done:
        yield Finding("forward", True, f"computes what it should, on {counted(len(done), 'input')}")


def backward_findings(exercise: Exercise, source: Source, outcomes: Sequence[Result]) -> Iterator[Finding]:
    """Each gradient, or the reason why it was not computed."""
    tried = [t for t in outcomes if t.outputs and not t.late]
    if tried and all(t.blank for t in tried):
        yield Finding("backward", False, f"{exercise.name}_backward is still empty: fill it in")
        return
    held, text = in_other_places(exercise, tried)
    complaints = [t for t in tried if t.complaint]
    if held:
        yield Finding("order", False, text)
    elif complaints:
        yield Finding("backward", False, complaints[0].complaint + _where(complaints, tried, SO))
    failed = [t for t in tried if t.failure and t.failure["step"] == "backward"]
    if failed:
        yield _failure(exercise, source, failed, "backward", tried)
    for name in named(exercise.gradients, tried[0].case.gradients) if tried else ():
        ran = [t for t in tried if name in t.gradients]
        if ran and name.partition(".")[0] not in held:
            yield _gradient(name, ran)


def _gradient(name: str, outcomes: Sequence[Result]) -> Finding:
    bad = [t for t in outcomes if t.gradients[name].problem]
    if not bad:
        is_of_own = any(t.own_forward for t in outcomes)
        return Finding(name, True, "is the derivative of your own forward" if is_of_own else "is right")
    worst = max(bad, key=lambda t: SEVERITY.index(t.gradients[name].problem))  # the first case with the worst error
    c = worst.gradients[name]
    if c.problem == "shape":
        text = f"has the shape {c.claimed.shape}, expected {c.truth.shape}"
    elif c.problem == "kind":
        text = f"expected an array {c.truth.shape}, got {kind(c.claimed)}"
    elif c.problem == "not finite":
        text = "has entries that are NaN or infinite"
    elif c.problem == "precision":
        text = _imprecise(c)
    else:
        off = f"{c.error:.1e}" if c.error < 1e-4 else percent(c.error, 0 if c.error >= 0.1 else 2)
        of = " of your own forward (measured)" * worst.own_forward
        text = f"is not the derivative{of}; off by {off} of its largest entry"
    return _wrong(name, text + _where(bad, outcomes), name, worst, c)


def _wrong(name: str, text: str, tensor: str, worst: Result, c: Compared) -> Finding:
    """A tensor is wrong; shown is the row of the worst place, expected and given."""
    lacks = "is not precise" if c.problem == "precision" else "is not right"
    on = f"on “{worst.case.label}”"
    if c.problem not in ("numbers", "not finite"):
        return Finding(name, False, text, (on,), lacks)
    claimed = np.asarray(c.claimed)
    if c.truth.ndim == 0:
        details = [f"expected {float(c.truth):.6g}, got {float(claimed):.6g}, {on}"]
        return Finding(name, False, text, details, lacks)
    *rows, column = worst_at(np.abs(claimed - c.truth))
    start = max(0, min(column - FEW // 2, c.truth.shape[-1] - FEW))
    place = ", ".join([*map(str, rows), f"{start}:{min(start + FEW, c.truth.shape[-1])}"])
    head = f"{tensor.split('.')[-1]}[{place}] {on}, worst at [{', '.join(map(str, [*rows, column]))}]"
    shown = [_row(x[tuple(rows)][start : start + FEW]) for x in (c.truth, claimed)]
    return Finding(name, False, text, (head, f"  expected {shown[0]}", f"  yours    {shown[1]}"), lacks)


def _row(x: HostArray) -> str:
    return " ".join(f"{value:>10.4g}" for value in x.tolist())


def _imprecise(c: Compared) -> str:
    """The words for numbers that are right, but not to float64 precision; float32 is told by its numbers, too."""
    claimed = np.asarray(c.claimed)
    with np.errstate(over="ignore"):
        is_single = claimed.dtype.itemsize < 8 or np.all(claimed.astype(np.float32) == claimed)
    if is_single:
        return "is right, but computed in float32; expected float64 precision"
    why = "computed in float32, or measured by differences" if c.error > 1e-9 else "measured by differences"
    return f"is right, but not to float64 precision (off by {c.error:.1e} of its largest entry): is it {why}?"


def conduct_findings(exercise: Exercise, outcomes: Sequence[Result]) -> Iterator[Finding]:
    """Whether the pair is pure: changes no input, gives the same answer twice, derives instead of measuring."""
    changed = sorted({name for t in outcomes for name in t.changed})
    if changed:
        text = f"writes into its inputs: {', '.join(changed)}; other code still needs them, so work on a new array"
        yield Finding("inputs", False, text)
    elif any(t.outputs for t in outcomes):
        yield Finding("inputs", True, "are unchanged")
    ran = [t for t in outcomes if t.gradients]
    if any(not t.stable for t in ran):
        text = "a second backward with the same cache gives other numbers: the first one writes into the cache"
        yield Finding("cache", False, text)
    signs = [text for sign, text in SIGNS.items() if any(sign in t.measuring for t in ran)]
    if signs:
        text = f"{signs[0].format(exercise.name)}: a gradient is to be derived here, not measured"
        yield Finding("backward", False, text)


def _failure(
    exercise: Exercise, source: Source, failed: Sequence[Result], step: str, among: Sequence[Result]
) -> Finding:
    """An exception in the learner's code, its line, and the shapes of inputs and upstream gradients."""
    event, case = failed[0].failure or {}, failed[0].case
    arrays = dict(zip(exercise.arguments, case.arguments, strict=True)) | named(exercise.upstream, case.upstream)
    shapes = ", ".join(f"{name} {x.shape}" for name, x in arrays.items() if isinstance(x, np.ndarray))
    said = (event["message"] or "(without a message)").splitlines()[0]
    details = [text for text in (said, source.at(event["line"]), f"there: {shapes}") if text]
    return Finding(
        step, False, f"{exercise.name}_{step} stops with {event['type']}{_where(failed, among, SO)}", details
    )


def _where(bad: Sequence[Result], outcomes: Sequence[Result], words: tuple[str, str] = ("wrong", "right")) -> str:
    """The wrong inputs, if not all are wrong: often the whole diagnosis; words: for these, and for the others."""
    if len(bad) == len(outcomes):
        return ""
    wrong, right = (
        ", ".join(f"“{t.case.label}”" for t in outcomes if (t in bad) == is_bad) for is_bad in (True, False)
    )
    if 2 * len(bad) <= len(outcomes):
        return f"; only on {wrong}"
    return f"; {words[0]} on {wrong}, {words[1]} on {right}"


def in_other_places(exercise: Exercise, outcomes: Sequence[Result]) -> tuple[dict[str, str], str]:
    """Place -> the right gradient that stands there, for those in each other's places; and the finding in words.

    A place has the name of the gradient that belongs there. Cases count in which backward returned as many as asked.
    """
    names = exercise.gradients
    returned = [t for t in outcomes if len(t.returned) == len(names) and not t.other_forward]
    fits = {
        place: [name for j, name in enumerate(names) if all(_equal(t, i, j) for t in returned)]
        for i, place in enumerate(names)
    }
    lost = [place for place in names if returned and place not in fits[place]]
    held = {place: name for place in lost for name in reversed(fits[place]) if name in lost}
    if set(held) != set(held.values()):  # a gradient stands in two places, or where nothing was lost
        return {}, ""
    wanted = ", ".join(names)
    if len(held) < len(lost):
        return held, f"{' and '.join(held.values())} are right, in each other's places; the order is {wanted}"
    came = ", ".join(held.get(place, place) for place in names)
    return held, f"these are right, in the order {came}; return them in the order {wanted}"


def _equal(outcome: Result, i: int, j: int) -> bool:
    """Whether what stands in one place is the gradient that belongs in another."""
    try:
        pair = compared(("",), (outcome.returned[i],), (as_tuple(outcome.case.gradients)[j],))
    except ValueError:
        return False
    return not any(c.problem for c in pair.values())
