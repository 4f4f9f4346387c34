"""What the page calls: an exercise's text in, the grader's own verdict, findings and hints out, as JSON."""

import json

from npformer.errors import DataError
from npformer.io.child_process import Limits
from npformer.lab.grader import runner
from npformer.lab.grader.exercises import find
from npformer.lab.grader.grade import grade_exercise
from npformer.lab.grader.report import folded, to_dict, verdict
from npformer.lab.grader.source import LearnerFile


def graded(name, text, seconds, stopped):
    exercise = find(name)
    runner.stopped = json.loads(stopped)
    try:
        grade = grade_exercise(exercise, LearnerFile(name + ".py", text, None, None), [exercise], Limits(seconds))
    except DataError as error:
        return json.dumps({"ok": False, "verdict": str(error), "findings": [], "faults": [], "printed": ""})
    told = verdict(grade)
    grade.findings = folded(grade, True) + folded(grade, False)
    return json.dumps(dict(to_dict(grade, 3), verdict=told))
