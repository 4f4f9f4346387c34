"""The museum's output, as wide as the terminal: the list with what finds each bug, the page of one."""

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
from npformer.lab.museum.patch import edited_sources
from npformer.lab.museum.stored import STEPS, Comparison, Exhibit
from npformer.lab.mutation_testing import CRASHED, EQUIVALENT, KILLED, SURVIVED, MutantResult

MARGIN = " " * 4
MEANING = {
    KILLED: "its gradients have the right shapes, and the check calls one of them wrong",
    CRASHED: "it stops with an error, such as shapes that do not fit, so nobody needs a check to see it",
    EQUIVALENT: "it changes no gradient, so it is no mistake",
    SURVIVED: "it changes a gradient and passes as right: a hole in the check",
}
_ID = 33  # width of the longest id and two spaces


def listing(bugs: Sequence[Mistake], exhibits: Mapping[str, Exhibit]) -> str:
    """Ids, titles and what finds each, category by category."""
    lines = []
    for category, group in groupby(bugs, key=lambda one: one.category):
        lines.append(category.upper())
        for one in group:
            lines.append(fill(one.title, first=f"  {one.id.ljust(_ID)}", hanging=" " * (_ID + 2)))
            lines.append(fill(f"found by {exhibits[one.id].found_by}", first=" " * 6, hanging=" " * 8))
    return "\n".join([*lines, f"{counted(len(bugs), 'bug')}. Look at one: npformer museum show ID"])


def label(e: Mistake) -> str:
    """What is known of a bug without running anything: the formulas, the story, the change."""
    parts = [
        f"{fill(e.heading)}\n{fill(f'{e.id} · {e.category}')}",
        f"{fill(e.right, None, '  right   ', ' ' * 10)}\n{fill(e.wrong, None, '  wrong   ', ' ' * 10)}",
        fill(e.story),
        fill(f"Seen: {e.seen}."),
        "\n".join(_change(e)),
    ]
    return "\n\n".join(parts)


def findings(e: Mistake, exhibit: Exhibit) -> str:
    """What finds the bug, and what the runs show."""
    lesson = [f"\nnpformer lessons {each.number} has this bug." for each in LESSONS if each.bug == e.id]
    return "\n".join([*_found(exhibit), "", *_shown(e, exhibit.comparison), *lesson])


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


def _found(exhibit: Exhibit) -> Iterator[str]:
    yield fill(f"Found by {exhibit.found_by}: {exhibit.says}", hanging=MARGIN)
    if exhibit.diagnosis:
        yield fill(f"Diagnosis: {exhibit.diagnosis}", hanging=MARGIN)


def _shown(e: Mistake, comparison: Comparison | None) -> Iterator[str]:
    if comparison is None:
        yield fill(f"There is no picture of this bug. {e.instead}")
        return
    yield fill(f"In training, after {STEPS} steps of reversing words of up to six letters:")
    for name, course in comparison._asdict().items():
        yield fill(f"  {name}   {course}", hanging=" " * 10)
    yield fill(comparison.verdict)


def mutation_table(results: Sequence[MutantResult], counts: Mapping[str, Any], seconds: float) -> str:
    """The counts of mutation testing by kind of mistake, the survivors with reasons, the quality of diagnoses."""
    outcomes = (KILLED, CRASHED, EQUIVALENT, SURVIVED)
    lines = ["mistake".ljust(16) + "".join(outcome.rjust(11) for outcome in outcomes)]
    for operator in sorted({result.operator for result in results}):
        made = Counter(result.outcome for result in results if result.operator == operator)
        lines.append(operator.ljust(16) + "".join(str(made[outcome]).rjust(11) for outcome in outcomes))
    lines.append("all".ljust(16) + "".join(str(counts[outcome]).rjust(11) for outcome in outcomes))
    for result in results:
        if result.outcome in (EQUIVALENT, SURVIVED):
            reason = result.case or "it changes no gradient"
            lines.append(fill(f"{result.outcome}: {result.description}; {reason}", hanging=MARGIN))
    judged = counts["diagnosis"]
    total = max(1, sum(judged.values()))
    shares = ", ".join(f"{label} {number} ({percent(number / total, 0)})" for label, number in judged.items())
    lines += ["", fill(f"diagnosis of the killed: {shares}", hanging=MARGIN)]
    lines += ["", *(fill(f"{outcome}: {MEANING[outcome]}", hanging=MARGIN) for outcome in outcomes if counts[outcome])]
    shown = next((result for result in results if result.outcome == KILLED), None)
    if shown:
        lines.append(fill(f"One of the killed: {shown.description}; found in {shown.case}", hanging=MARGIN))
    lines.append(f"{counts['mutants']} mutants in {seconds:.0f} s")
    return "\n".join(lines)
