"""Runs a learner's text in the page, and returns what the grader's own runner does.

The page ends a worker that does not come back. The next one is told what was noted, and runs nothing.
"""

import io
import json
import re
import sys
from types import SimpleNamespace

import js
import numpy as np
from npformer.lab.grader.leaves import _leaves

from npformer.io.child.slopes import slopes
from npformer.io.child.values import decode, encode, same
from npformer.lab.grader.grading import Result
from npformer.lab.grader.parts import FUNCTIONS
from npformer.lab.grader.source import BANNED

stopped = None  # what was noted before a worker was ended


class Run:
    def __init__(self, ended=None):
        self.results, self.slopes, self.signatures, self.ended = [], [], None, ended
        self.failure, self.refused, self.step, self.warnings, self.printed = {}, {}, "load", [], ""

    def enter(self, step):
        self.step = step
        js.noted(json.dumps({"step": step, "signatures": self.signatures}))


def run(exercise, source, beside, cases, limits, oracle):
    """What becomes of one exercise on these cases."""
    if stopped:
        happened = Run(SimpleNamespace(is_late=True))
        happened.step, happened.signatures = stopped[-1]["step"], stopped[-1]["signatures"]
        return happened
    happened, space = Run(), {"zip": lambda *lists, strict=False: zip(*lists), "float": np.number}
    happened.enter("load")
    sys.modules["parts"] = SimpleNamespace(**{name: FUNCTIONS[name] for name in exercise.available})
    happened.failure = _refused(source, happened) or _attempt(source, _load, source, space)
    if not happened.failure and not happened.refused:
        happened.signatures = [None, None]
        for case in cases:
            happened.results.append(Result(case))
            failure = _attempt(source, _slopes if oracle else _case, exercise, case, space, happened)
            happened.results[-1].failure = dict(failure, step=happened.step) if failure else {}
            if failure and oracle:
                break
    happened.printed = "\n".join(js.printed)
    return happened


def _refused(source, happened):
    """Note that the text imports what holds the answer; a failure if it has what is something else here."""
    for number, line in enumerate(source.text.split("\n")):
        for words in [statement.split() for statement in line.split("#")[0].split(";")]:
            if len(words) > 1 and words[0] in ("import", "from") and words[1].split(".")[0] in BANNED + ("js",):
                happened.refused = {"refused": "imports " + words[1], "line": number + 1}
                return {}
            if len(words) > 2 and words[1] in ("*=", "/=", "**=", "//=", "%=", "@=") and "[" not in words[0]:
                message = WRITES.replace("NAME", words[0]).replace("SIGN", words[1][:-1])
                message = message.replace("FILE", str(source.path))
                return {"type": "SyntaxError", "message": message, "line": number + 1}
    return {}


def _attempt(source, action, *arguments):
    """The error, with the last line of the text that it passed through; or nothing."""
    try:
        action(*arguments)
        return {}
    except Exception as error:
        told = io.StringIO()
        sys.print_exception(error, told)
        lines = told.getvalue().split('File "' + str(source.path) + '", line ')
        line = int(lines[-1].split(",")[0].split("\n")[0]) if len(lines) > 1 else None
        more = ""
        if isinstance(error, SyntaxError):
            line, more = _place(source, line), _advice(str(error), source.line(_place(source, line)))
        message = str(error) + more.replace("FILE", str(source.path))
        return {"type": type(error).__name__, "message": message, "line": line}


def _place(source, line):
    """The line of a syntax error, or, where that is empty, the last one above it that is not."""
    while line and line > 1 and not source.line(line):
        line -= 1
    return line


def _advice(message, line):
    """What to look at after a syntax error that may be Python's, too; MicroPython's own gaps only where one shows."""
    if "indent" in message:
        return "; check how far this line is indented, and the lines beside it"
    if any([re.search(gap, line) for gap in GAPS]) or "*x" in message:
        return UNREAD
    if message == "invalid syntax":
        return "; check this line and the one above it: is a bracket left open, or a colon missing?"
    return ""


def _load(source, space):
    exec(compile(source.text, str(source.path), "exec"), space)


WRITES = "NAME SIGN= … makes a new array here, where NumPy writes into the old one: write NAME = NAME SIGN …; "
WRITES += "as it is, `npformer grade FILE` judges it"
#: What Python reads and MicroPython does not: * or ** in a tuple, list, dict or subscript, positional-only arguments, …
GAPS = (r"[(\[{,] *\*", r"(return|=|yield) *\*", r"^(match|case|type) ", r"/ *[,):]", r"^except *\*", r"^with *\(")
UNREAD = (
    "; check this line and the one above it. If Python reads them, MicroPython, which runs in this page, does not: it "
    "has no * within a tuple or a list, no match. Then `npformer grade FILE` judges it"
)


def _case(exercise, case, space, happened):
    """Forward, then backward twice, to see whether it changed its cache."""
    names = exercise.arguments + ("the incoming gradient",)
    forms = case.arguments + (case.upstream,)
    values = [decode(form, case.gaps) for form in forms]

    def changed():
        return [name for name, value, form in zip(names, values, forms) if not same(encode(value), form)]

    happened.enter("forward")
    result = space[exercise.name + "_forward"](*values[:-1])
    noted = happened.results[-1]
    noted.note_forward(exercise, encode(result, True), changed())
    if not isinstance(result, tuple) or len(result) != 2:
        return
    happened.enter("backward")
    backward = space[exercise.name + "_backward"]
    first, touched = encode(backward(values[-1], result[1]), True), changed()
    lines = js.printed.length
    again = encode(backward(decode(case.upstream, case.gaps), result[1]), True)
    js.printed.length = lines  # a print is reported once
    noted.stable = same(first, again)
    noted.note_backward(exercise, first, touched)


def _slopes(exercise, case, space, happened):
    forward = space[exercise.name + "_forward"]
    happened.slopes.append(slopes(forward, case.arguments, case.upstream, _leaves(exercise, case)))
