"""The museum's output, as wide as the terminal: the list, the table of detections, the page of one bug."""

from __future__ import annotations

import difflib
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from npformer.io.percent import percent
from npformer.io.terminal import columns, counted, fill
from npformer.lab.lessons.lessons import LESSONS
from npformer.lab.mistake import Mistake
from npformer.lab.museum.demonstration import Comparison
from npformer.lab.museum.detections import Detections, only_detectors
from npformer.lab.museum.patch import edited_sources
from npformer.lab.mutation_testing import CRASHED, EQUIVALENT, KILLED, SURVIVED, Outcome

MARGIN = " " * 4
MEANING = {
    KILLED: "its gradients have the right shapes, and the check calls one of them wrong",
    CRASHED: "it stops with an error, such as shapes that do not fit, so nobody needs a check to see it",
    EQUIVALENT: "it changes no gradient, so it is no mistake",
    SURVIVED: "it changes a gradient and passes as right: a hole in the check",
}
_ID = 33  # width of the longest id and two spaces


def listing(bugs: Sequence[Mistake]) -> str:
    """Ids and titles, category by category."""
    lines = []
    for category, group in groupby(bugs, key=lambda e: e.category):
        lines.append(category.upper())
        lines += [_entry(e.id, e.title) for e in group]
    return "\n".join([*lines, f"{counted(len(bugs), 'bug')}. Look at one: npformer museum show ID"])


def row(detections: Detections) -> str:
    """A bug's lines in the table of detections: the number of checks that detect it, the first one, the diagnosis."""
    e = detections.bug
    if detections.survives():
        return _entry(e.id, f"SURVIVES all {detections.tried} checks that run it")
    names = list(detections.problems)
    first = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
    return _entry(e.id, first) + "\n" + fill(detections.diagnosis, first=" " * 6, hanging=" " * 8)


def heading(category: str) -> str:
    """The line above a category's rows."""
    return f"\n{category.upper()}".ljust(_ID + 1) + "detected by"


def verdict(table: Sequence[Detections], without: Sequence[str], seconds: float) -> str:
    """The last lines: the number of detected bugs, the survivors, and the indispensable checks."""
    survivors = [detections.bug.id for detections in table if detections.survives(without)]
    left_out = f" without {', '.join(without)}" if without else ""
    lines = [f"\n{len(table) - len(survivors)} of {len(table)} bugs detected{left_out} ({seconds:.0f} s)"]
    lines += [f"SURVIVES: {name}" for name in survivors]
    return "\n".join([*lines, *_single(table)])


def _single(table: Sequence[Detections]) -> Iterator[str]:
    """For each check, the bugs that would survive without it."""
    alone = only_detectors(table)
    used = {name for detections in table for name in detections.problems}
    if alone:
        yield "\nWITHOUT THIS CHECK ALONE".ljust(_ID + 1) + "these would survive"
        yield from (_entry(name, ", ".join(ids)) for name, ids in alone.items())
    if len(used) > len(alone):
        yield fill(
            f"Each of the other {len(used) - len(alone)} checks that detected something can be left out: "
            "another one detects the same."
        )


def label(e: Mistake) -> str:
    """What is known of a bug without running anything: the formulas, the story, the change."""
    numbers = f" · number{'s' if len(e.sources) > 1 else ''} {', '.join(map(str, e.sources))}" if e.sources else ""
    parts = [
        f"{fill(e.heading)}\n{fill(f'{e.id} · {e.category}{numbers}')}",
        f"  right   {_hung(e.right)}\n  wrong   {_hung(e.wrong)}",
        fill(e.story),
        fill(f"Seen: {e.seen}."),
        "\n".join(_change(e)),
    ]
    return "\n\n".join(parts)


def findings(e: Mistake, detections: Detections, comparison: Comparison | None) -> str:
    """What the checks and the two runs find."""
    lesson = [f"\nnpformer lessons {each.number} has this bug." for each in LESSONS if each.bug == e.id]
    return "\n".join([*_found(detections), "", *_shown(e, comparison), *lesson])


def _change(e: Mistake) -> Iterator[str]:
    """The changed lines, before and after."""
    yield "The change:"
    for target, (before, after) in edited_sources(e.edits).items():
        yield fill(f"in {target.replace(':', ', ')}", first="  ", hanging=" " * 6)
        changed = [line for line in difflib.ndiff(before.splitlines(), after.splitlines()) if line[0] in "-+"]
        code = textwrap.dedent("\n".join(line[2:] for line in changed)).split("\n")
        for line, bare in zip(changed, code, strict=True):
            if bare.strip():
                yield from _folded(line[0], bare)


def _folded(mark: str, code: str) -> list[str]:
    margin = " " * (len(code) - len(code.lstrip()))
    parts = textwrap.wrap(code.strip(), columns() - 10 - len(margin), break_long_words=False, break_on_hyphens=False)
    return [f"    {mark} {margin}{parts[0]}", *(f"    {mark} {margin}    {part}" for part in parts[1:])]


def _found(detections: Detections) -> Iterator[str]:
    if detections.survives():
        yield f"SURVIVES all {detections.tried} checks that run the changed code."
        return
    yield f"Detected by {counted(len(detections.problems), 'check')} of {detections.tried} that run the changed code:"
    for name, problem in list(detections.problems.items())[:4]:
        yield fill(f"  {name}: {problem}", hanging=MARGIN)
    if len(detections.problems) > 4:
        yield f"  and {len(detections.problems) - 4} more"
    if detections.diagnosis not in detections.problems.values():
        yield fill(f"Diagnosis: {detections.diagnosis}", hanging=MARGIN)


def _shown(e: Mistake, comparison: Comparison | None) -> Iterator[str]:
    if comparison is None:
        yield fill(f"There is no picture of this bug. {e.instead}")
        return
    steps = len(comparison.right.losses)
    yield fill(f"In training, after {steps} steps of reversing words of up to six letters:")
    for name, told in zip(("right", "wrong"), comparison.told, strict=True):
        yield fill(f"  {name}   {told}", hanging=" " * 10)
    yield fill(comparison.verdict)


def _hung(text: str) -> str:
    return textwrap.fill(text, columns() - 10, break_long_words=False).replace("\n", "\n" + " " * 10)


def _entry(name: str, text: str) -> str:
    return fill(text, first=f"  {name.ljust(_ID)}", hanging=" " * (_ID + 2))


def mutation_table(outcomes: Sequence[Outcome], counts: Mapping[str, Any], seconds: float) -> str:
    """The counts of mutation testing by kind of mistake, the survivors with reasons, the quality of diagnoses."""
    fates = (KILLED, CRASHED, EQUIVALENT, SURVIVED)
    lines = ["mistake".ljust(16) + "".join(fate.rjust(11) for fate in fates)]
    for operator in sorted({outcome.operator for outcome in outcomes}):
        made = Counter(outcome.fate for outcome in outcomes if outcome.operator == operator)
        lines.append(operator.ljust(16) + "".join(str(made[fate]).rjust(11) for fate in fates))
    lines.append("all".ljust(16) + "".join(str(counts[fate]).rjust(11) for fate in fates))
    for outcome in outcomes:
        if outcome.fate in (EQUIVALENT, SURVIVED):
            reason = outcome.case or "it changes no gradient"
            lines.append(fill(f"{outcome.fate}: {outcome.description}; {reason}", hanging=MARGIN))
    judged = counts["diagnosis"]
    total = max(1, sum(judged.values()))
    shares = ", ".join(f"{label} {number} ({percent(number / total, 0)})" for label, number in judged.items())
    lines += ["", fill(f"diagnosis of the killed: {shares}", hanging=MARGIN)]
    lines += ["", *(fill(f"{fate}: {MEANING[fate]}", hanging=MARGIN) for fate in fates if counts[fate])]
    shown = next((outcome for outcome in outcomes if outcome.fate == KILLED), None)
    if shown:
        lines.append(fill(f"One of the killed: {shown.description}; found in {shown.case}", hanging=MARGIN))
    lines.append(f"{counts['mutants']} mutants in {seconds:.0f} s")
    return "\n".join(lines)
