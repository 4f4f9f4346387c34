"""The report on one exercise, as a good teacher would write it, as wide as the terminal; and the same as JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from npformer.check.report import NOT_BEGUN, RIGHT, WRONG, Claim
from npformer.io.printable import visible
from npformer.io.terminal import columns
from npformer.lab.grader.exercises import EXERCISES
from npformer.lab.grader.grade import Grade
from npformer.lab.lessons.lessons import next_step

#: The verdict's words for findings that are not gradients.
PHRASES = {
    "forward": "the forward is not right",
    "backward": "the backward is not right",
    "order": "its gradients are in another order",
    "inputs": "it writes into its inputs",
    "cache": "it writes into its cache",
    "time": "it takes too long",
    "process": "it breaks off",
}
#: What a hint is about, if neither gradients nor what such a finding is about.
ABOUT = {"measured": "the backward", "structure": "what backward returns"}
FEW = 5  # the most gradients with separate lines
LINES = 8  # lines of the learner's prints


def report(grade: Grade, level: int, command: str) -> str:
    """The report; level: 1 to 3, a higher hint tells more; command: what to type for more."""
    parts = [verdict(grade), *("\n".join(map(_finding, folded(grade, ok))) for ok in (True, False))]
    if grade.lines:
        parts.append(_paragraph("Line by line", _by_line(grade.lines)))
    for fault in grade.faults:
        few = fault.gradients  # of many the last and the number of the others
        few = few if len(few) <= 2 else (few[-1], f"{len(few) - 1} others")
        about = " and ".join(few) or ABOUT.get(fault.cause, f"the {fault.cause}" * (fault.cause in PHRASES))
        parts.append(_paragraph("What shows", fault.seen) if fault.seen else "")
        parts.append(_paragraph(f"Hint {level} of 3" + f" on {about}" * bool(about), fault.hints[level - 1]))
    if grade.faults:
        more = f"More: {command} --hint {level + 1}" if level < 3 else f"The derivation: {command} --answer"
        parts.append(f"  {visible(more)}")
    lines = [line for line in grade.printed.rstrip().split("\n") if line.strip()]
    cut = ["… and more"] if lines[LINES:] else []
    warned = [told["message"] + f" (line {told['line']})" * bool(told["line"]) for told in grade.warnings]
    blocks = _block("Your code printed", [*lines[:LINES], *cut]), _block("Python warned", warned)
    parts.append("\n".join(filter(None, blocks)))
    return "\n\n".join(filter(None, parts))


def verdict(grade: Grade) -> str:
    """One line."""
    title = grade.exercise.name
    if grade.ok:
        return f"{title}: right."
    if grade.verdict == NOT_BEGUN:
        return f"{title}: not begun; the backward is still empty."
    wrong = {finding.name: f"is not {finding.meaning}" for finding in grade.findings if not finding.ok}
    phrases = [PHRASES[name].replace("is not right", lacks) for name, lacks in wrong.items() if name in PHRASES]
    gradients = [name for name in wrong if name not in PHRASES]
    kinds = dict.fromkeys(wrong[name] for name in gradients)
    listed = [_list([name for name in gradients if wrong[name] == lacks], lacks) for lacks in kinds]
    line = f"{title}: not yet; {', '.join([*phrases, *listed])}."
    if len(line) <= columns():
        return line
    many = f"{len(gradients)} gradients are not right"
    return f"{title}: not yet; {', '.join([*phrases, many])}."


def to_dict(grade: Grade, level: int) -> dict[str, Any]:
    """Everything as JSON, with hints up to the requested level."""
    return {
        "exercise": grade.exercise.name, "ok": grade.ok, "status": grade.verdict.lower(),
        "findings": [{"name": f.name, "ok": f.ok, "text": f.reason, "details": f.details} for f in grade.findings],
        "faults": [
            {"gradients": list(fault.gradients), "cause": fault.cause if level == 3 else None, "seen": fault.seen,
             "hints": list(fault.hints[:level])}
            for fault in grade.faults
        ],
        "first_wrong_line": next((claim.line for claim in grade.lines if not claim.ok), None),
        "printed": grade.printed, "warnings": list(grade.warnings),
    }  # fmt: skip


def following(grade: Grade) -> str:
    """After a right answer: what one now knows, and the next step: of the lesson that has the exercise, if one has."""
    exercise, number = grade.exercise, EXERCISES.index(grade.exercise) + 1
    step = next_step(exercise.name)
    if step:
        then = f"Next in lesson {step[0].number}: {step[1]}"
    elif number == len(EXERCISES):
        then = "That was the last one: you have written a Transformer's whole backward pass."
    else:
        then = f"Next: npformer grade --template {EXERCISES[number].name}"
    return "\n".join([*_wrapped(f"You know now: {exercise.known}", "", "  "), then])


def _finding(finding: Claim) -> str:
    name = finding.name if len(finding.name) <= 14 else finding.name + ":"
    head = f"  {'✓' if finding.ok else '✗'} {name:<14} "
    lines = _wrapped(finding.reason, head, " " * 19) or [head]
    for detail in finding.details:
        lines += [_clipped(f"      {detail}")] if detail.startswith("  ") else _wrapped(detail, " " * 6, " " * 8)
    return "\n".join(lines)


def _wrapped(text: str, first: str, hanging: str) -> list[str]:
    return textwrap.wrap(visible(text), columns(), initial_indent=first, subsequent_indent=hanging)


def _clipped(line: str) -> str:
    line = visible(line)
    return line if len(line) <= columns() else line[: columns() - 1] + "…"


def folded(grade: Grade, ok: bool) -> list[Claim]:
    """The findings that hold or do not; of many gradients, only one of each fault is shown with its numbers."""
    findings = [finding for finding in grade.findings if finding.ok == ok]
    shown = {*PHRASES, *(fault.gradients[-1] for fault in grade.faults if fault.gradients)}
    if sum(finding.name not in PHRASES for finding in findings) <= FEW:
        return findings
    listed = ", ".join(finding.name for finding in findings if finding.name not in shown)
    text = f"{'right' if ok else 'also wrong'}: {listed}"
    return [
        *(finding for finding in findings if finding.name in shown),
        Claim("gradients", "right", RIGHT if ok else WRONG, text),
    ]


def _paragraph(title: str, text: str) -> str:
    return "\n".join([f"  {title}", *_wrapped(text, " " * 4, " " * 4)])


def _block(title: str, lines: list[str]) -> str:
    """Lines as they are, clipped."""
    return "\n".join([f"  {title}", *(_clipped(f"    {line}") for line in lines)]) if lines else ""


def _by_line(lines: Sequence[Claim]) -> str:
    """The first wrong line, and what was compared."""
    right, last = [claim.name for claim in lines if claim.ok], lines[-1]
    told = f"{last.reason} " + (f"{_list(right, 'is')} right; " if right else "")
    if not last.ok:
        return f"{told}the first wrong value is that of {last.name}, by line {last.line}: not {last.meaning}"
    return f"{told}compared are names of the forward with a d before them, and no other line is"


def _list(names: list[str], lacks: str) -> str:
    """dx is not right; dx and dbias are not right."""
    listed = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    return f"{listed} {lacks.replace('is', 'are', 1) if len(names) > 1 else lacks}"
