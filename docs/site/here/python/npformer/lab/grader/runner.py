"""Runs a learner's text in the page, and reports it in the events of the grader's own runner.

The page ends a worker that does not come back. The next one is told the events that were, and runs nothing.
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
from npformer.lab.grader.parts import FUNCTIONS
from npformer.lab.grader.source import BANNED

stopped = None  # the events before a worker was ended


class Run:
    def __init__(self, events=(), killed=False):
        self.events, self.killed, self.exit_code, self.printed_more = list(events), killed, 0, 0
        self.printed = ""
        self.stage = {"step": "load", "case": None}

    @property
    def ended(self):
        return not self.killed

    def all(self, event):
        return [e for e in self.events if e["event"] == event]

    def say(self, event, **values):
        self.events.append(dict(self.stage, event=event, **values))

    def enter(self, step, case):
        self.stage = {"step": step, "case": case}
        self.say("stage")
        js.noted(json.dumps(self.events[-1]))


def run(exercise, source, beside, cases, limits, oracle):
    """The events of one exercise on these cases."""
    if stopped:
        return Run(stopped, killed=True)
    happened, space = Run(), {"zip": lambda *lists, strict=False: zip(*lists), "float": np.number}
    happened.enter("load", None)
    sys.modules["parts"] = SimpleNamespace(**{name: FUNCTIONS[name] for name in exercise.available})
    if not _refused(source, happened) and _attempt(source, happened, _load, source, space):
        happened.say("loaded", signatures=[None, None])
        js.noted(json.dumps(happened.events[-1]))
        for index, case in enumerate(cases):
            _attempt(source, happened, _slopes if oracle else _case, exercise, case, index, space, happened)
    happened.say("end", warnings=[])
    happened.printed = "\n".join(js.printed)
    return happened


def _refused(source, happened):
    """Whether the text imports what holds the answer, or has what is something else here; said with its line."""
    for number, line in enumerate(source.text.split("\n")):
        for words in [statement.split() for statement in line.split("#")[0].split(";")]:
            if len(words) > 1 and words[0] in ("import", "from") and words[1].split(".")[0] in BANNED + ("js",):
                happened.say("refused", message="imports " + words[1], line=number + 1)
                return True
            if len(words) > 2 and words[1] in ("*=", "/=", "**=", "//=", "%=", "@=") and "[" not in words[0]:
                message = WRITES.replace("NAME", words[0]).replace("SIGN", words[1][:-1])
                message = message.replace("FILE", str(source.path))
                happened.say("failed", type="SyntaxError", message=message, line=number + 1)
                return True
    return False


def _attempt(source, happened, action, *arguments):
    """Whether it came back; an error is reported, with the last line of the text that it passed through."""
    try:
        action(*arguments)
        return True
    except Exception as error:
        told = io.StringIO()
        sys.print_exception(error, told)
        lines = told.getvalue().split('File "' + str(source.path) + '", line ')
        line = int(lines[-1].split(",")[0].split("\n")[0]) if len(lines) > 1 else None
        more = ""
        if isinstance(error, SyntaxError):
            line, more = _place(source, line), _advice(str(error), source.line(_place(source, line)))
        message = str(error) + more.replace("FILE", str(source.path))
        happened.say("failed", type=type(error).__name__, message=message, line=line)
        return False


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


def _case(exercise, case, index, space, happened):
    """Forward, then backward twice, to see whether it changed its cache."""
    names = exercise.arguments + ("the incoming gradient",)
    forms = case.arguments + (case.upstream,)
    values = [decode(form, case.gaps) for form in forms]

    def changed():
        return [name for name, value, form in zip(names, values, forms) if not same(encode(value), form)]

    happened.enter("forward", index)
    result = space[exercise.name + "_forward"](*values[:-1])
    happened.say("forward", result=encode(result, True), changed=changed())
    if not isinstance(result, tuple) or len(result) != 2:
        return
    happened.enter("backward", index)
    backward = space[exercise.name + "_backward"]
    first, touched = encode(backward(values[-1], result[1]), True), changed()
    lines = js.printed.length
    again = encode(backward(decode(case.upstream, case.gaps), result[1]), True)
    js.printed.length = lines  # a print is reported once
    happened.say("backward", result=first, changed=touched, stable=same(first, again), measuring=[], lines=[])


def _slopes(exercise, case, index, space, happened):
    happened.enter("oracle", index)
    forward = space[exercise.name + "_forward"]
    happened.say("oracle", result=slopes(forward, case.arguments, case.upstream, _leaves(exercise, case)))
