"""How far a learner is with the lessons, from the progress file and the folder."""

from __future__ import annotations

from collections.abc import Mapping

from npformer.lab.grader.folder import Begun
from npformer.lab.grader.progress import DONE, IN_PROGRESS, NOT_BEGUN, Progress, state_of
from npformer.lab.lessons.lesson import Lesson


def standing(lesson: Lesson, progress: Progress, files: Mapping[str, Begun]) -> str:
    """DONE if its exercises are, or if the learner says so; IN_PROGRESS if it was read or an exercise is begun."""
    states = [state_of(name, progress, files) for name in lesson.exercises]
    noted = progress.lessons.get(str(lesson.number), NOT_BEGUN)
    if noted == DONE or (states and all(state == DONE for state in states)):
        return DONE
    return IN_PROGRESS if noted == IN_PROGRESS or any(state != NOT_BEGUN for state in states) else NOT_BEGUN
