"""Eight lessons through exercises, the museum and the checks, from a linear map to a fault in a layer.

``lessons`` (what a lesson is, and the eight), ``broken`` (the file of the last one), ``text`` (for the
terminal, with how far a learner is), ``page`` (for docs).
"""

from npformer.lab.lessons.lessons import LESSONS, Lesson, LessonStep, lesson

__all__ = ["LESSONS", "Lesson", "LessonStep", "lesson"]
