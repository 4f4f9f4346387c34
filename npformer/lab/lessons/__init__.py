"""Eight lessons through exercises, the museum and the checks, from a linear map to a fault in a layer.

``lesson`` (what a lesson is), ``lessons`` (the eight), ``broken`` (the file of the last one), ``text`` (for the
terminal, with how far a learner is), ``page`` (for docs).
"""

from npformer.lab.lessons.lesson import Lesson, Step
from npformer.lab.lessons.lessons import LESSONS, lesson

__all__ = ["LESSONS", "Lesson", "Step", "lesson"]
