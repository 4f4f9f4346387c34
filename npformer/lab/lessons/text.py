"""How far a learner is with the lessons, and the lessons on a terminal, as wide as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count

from npformer.check.report import NOT_BEGUN
from npformer.io.terminal import aligned, fill
from npformer.lab.grader.progress import DONE, IN_PROGRESS, MARKS, Begun, LearnerProgress, state_of
from npformer.lab.lessons.lessons import Lesson, LessonStep


def listing(lessons: Sequence[Lesson], progress: LearnerProgress, files: Mapping[str, Begun]) -> str:
    """All lessons with their states, and the next one."""
    states = [standing(lesson, progress, files) for lesson in lessons]
    rows = [
        (f"  {MARKS[state]} {each.number}", each.title, ", ".join(each.exercises), "" if state == NOT_BEGUN else state)
        for each, state in zip(lessons, states, strict=True)
    ]
    left = [lesson.number for lesson, state in zip(lessons, states, strict=True) if state != DONE]
    last = f"{len(lessons) - len(left)} of {len(lessons)} done"
    return "\n".join([*aligned(rows), "", f"{last}; next: npformer lessons {left[0]}" if left else last])


def shown(
    lesson: Lesson, progress: LearnerProgress, files: Mapping[str, Begun], asked: Mapping[str, Sequence[str]]
) -> str:
    """One lesson; asked: command -> the questions before it."""
    parts = [f"Lesson {lesson.number}: {lesson.title} ({standing(lesson, progress, files)})", fill(lesson.idea)]
    left, number = dict(asked), count(1)
    for title, steps in lesson.parts:
        lines = [title]
        for step in steps:
            for question in left.pop(step.command, ()):
                lines.append(fill(f"Predict {next(number)}: {question}", first="  ", hanging="  "))
            lines += _step(step)
        parts.append("\n".join(lines))
    if asked:
        parts.append(fill(f"Is prediction 1 right? npformer lessons {lesson.number} --predict 1 ANSWER"))
    parts.append(fill(_end(lesson, progress, files)))
    return "\n\n".join(parts)


def _step(step: LessonStep) -> list[str]:
    told = fill(step.text, first="  ", hanging="  ") if step.text else ""
    return [line for line in (f"    {step.command}" if step.command else "", told) if line]


def _end(lesson: Lesson, progress: LearnerProgress, files: Mapping[str, Begun]) -> str:
    """When the lesson counts as done."""
    left = [name for name in lesson.exercises if state_of(name, progress, files) != DONE]
    if standing(lesson, progress, files) == DONE:
        return "This lesson is done."
    if left:
        return f"It is done when {' and '.join(left)} {'is' if len(left) == 1 else 'are'} graded right."
    return f"When you have done it: npformer lessons {lesson.number} --done"


def standing(lesson: Lesson, progress: LearnerProgress, files: Mapping[str, Begun]) -> str:
    """DONE if its exercises are, or if the learner says so; IN_PROGRESS if it was read or an exercise is begun."""
    states = [state_of(name, progress, files) for name in lesson.exercises]
    noted = progress.lessons.get(str(lesson.number), NOT_BEGUN)
    if noted == DONE or (states and all(state == DONE for state in states)):
        return DONE
    return IN_PROGRESS if noted == IN_PROGRESS or any(state != NOT_BEGUN for state in states) else NOT_BEGUN
