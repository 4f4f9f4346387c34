"""The lessons on a terminal, as wide as it is."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

from npformer.lab.grader.folder import Begun
from npformer.lab.grader.progress import DONE, MARKS, NOT_BEGUN, Progress, state_of
from npformer.lab.lessons.lesson import Lesson, Step
from npformer.lab.lessons.standing import standing
from npformer.terminal import columns


def listing(lessons: Sequence[Lesson], progress: Progress, files: Mapping[str, Begun]) -> str:
    """All lessons with their states, and the next one."""
    states = [standing(lesson, progress, files) for lesson in lessons]
    lines = []
    for lesson, state in zip(lessons, states, strict=True):
        said = "" if state == NOT_BEGUN else state
        row = f"  {MARKS[state]} {lesson.number}  {lesson.title:<22} {', '.join(lesson.exercises):<34} {said}"
        lines.append(row.rstrip())
    left = [lesson.number for lesson, state in zip(lessons, states, strict=True) if state != DONE]
    last = f"{len(lessons) - len(left)} of {len(lessons)} done"
    return "\n".join([*lines, "", f"{last}; next: npformer lessons {left[0]}" if left else last])


def shown(lesson: Lesson, progress: Progress, files: Mapping[str, Begun]) -> str:
    """One lesson."""
    parts = [f"Lesson {lesson.number}: {lesson.title} ({standing(lesson, progress, files)})", _filled(lesson.idea, 0)]
    for title, steps in lesson.parts:
        parts.append("\n".join([title, *(line for step in steps for line in _step(step))]))
    parts.append(_filled(_end(lesson, progress, files), 0))
    return "\n\n".join(parts)


def _step(step: Step) -> list[str]:
    return [*([f"    {step.command}"] if step.command else []), *([_filled(step.text, 2)] if step.text else [])]


def _end(lesson: Lesson, progress: Progress, files: Mapping[str, Begun]) -> str:
    """When the lesson counts as done."""
    left = [name for name in lesson.exercises if state_of(name, progress, files) != DONE]
    if standing(lesson, progress, files) == DONE:
        return "This lesson is done."
    if left:
        return f"It is done when {' and '.join(left)} {'is' if len(left) == 1 else 'are'} graded right."
    return f"When you have done it: npformer lessons {lesson.number} --done"


def _filled(text: str, margin: int) -> str:
    return textwrap.fill(
        text, columns(), initial_indent=" " * margin, subsequent_indent=" " * margin, break_on_hyphens=False
    )
