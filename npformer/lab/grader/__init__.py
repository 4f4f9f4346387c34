"""The grader: runs a learner's own forward and backward, and reports like a teacher.

In reading order: ``exercises`` (what is asked), ``parts`` (the answers), ``templates`` (files to fill in),
``cases`` (inputs), ``source`` (the file before it runs), ``child`` and ``runner`` (how it runs),
``judge`` and ``findings`` (what holds), ``mistakes``, ``hints`` and ``diagnosis`` (why not), ``grade``
(all of it), ``report`` and ``progress``.
"""

from npformer.lab.grader.exercises import EXERCISES, Exercise, find
from npformer.lab.grader.grade import Grade, grade_file
from npformer.lab.grader.runner import Limits

__all__ = ["EXERCISES", "Exercise", "Grade", "Limits", "find", "grade_file"]
