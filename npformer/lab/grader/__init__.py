"""The grader: runs a learner's own forward and backward, and reports like a teacher.

In reading order: ``exercises`` (the problems and their inputs), ``parts`` (the answers), ``templates`` (files to fill
in), ``source`` (reading a file), ``runner`` (running it), ``grading`` (right or wrong), ``diagnosis``
(why), ``line_by_line``, ``grade`` (all steps together), ``report`` and ``progress``. What is said of an
exercise, and of a mistake, is in exercises.toml.
"""

from npformer.io.child_process import Limits
from npformer.lab.grader.exercises import EXERCISES, Exercise, find
from npformer.lab.grader.grade import Grade, grade_file

__all__ = ["EXERCISES", "Exercise", "Grade", "Limits", "find", "grade_file"]
