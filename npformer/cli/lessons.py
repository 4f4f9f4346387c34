"""npformer lessons: eight lessons from a linear map to a fault in a layer, and how far the learner is."""

from __future__ import annotations

import argparse
import re
from dataclasses import asdict
from pathlib import Path

from npformer.cli.common import finished, write_template
from npformer.errors import ConfigError
from npformer.lab.grader import progress
from npformer.lab.lessons import LESSONS, Lesson, lesson, text
from npformer.lab.lessons.broken import broken
from npformer.lab.lessons.text import standing
from npformer.see.explain.questions import judged, questions

SUMMARY = "Eight lessons: read, write a backward, meet a bug, see."
EXAMPLES = f"""examples:
  npformer lessons                         the eight lessons: done, in progress, not begun
  npformer lessons 1                       what to read, what to write, which bug to meet, what to see
  npformer lessons 1 --predict 1 "(2, 3)"  an answer to question 1 of a lesson, before you see what is asked about
  npformer lessons 7 --done                count a lesson as done
  npformer lessons 8 --file broken_layer.py        writes the file that lesson 8 is about

A lesson is done when its exercises are graded right, or when you say so. What you have read and done is noted in
{progress.NAME} in the current folder, beside your files."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser._negative_number_matcher = re.compile(r"-\.?\d")  # as in Python 3.14; before, -1e-3 is an option
    add = parser.add_argument
    add("number", nargs="?", type=int, metavar="N", help="the lesson to print; default: list all")
    add("--predict", nargs=2, metavar=("Q", "ANSWER"), help="judge an answer to question Q of lesson N")
    add("--done", action="store_true", help="note that lesson N is done")
    add("--file", metavar="FILE", type=Path, help="write the file that lesson N brings (lesson 8)")
    add("--no-progress", action="store_true", help=f"leave {progress.NAME} alone")


def run(args: argparse.Namespace) -> int:
    """Exit 1 if a prediction is not right."""
    given = [f"--{name}" for name in ("predict", "done", "file") if getattr(args, name)]
    if args.number is None:
        if given:
            raise ConfigError(f"{given[0]}: expected the number of a lesson, got none; try npformer lessons 8")
        return _list(args)
    chosen = lesson(args.number)
    if args.predict:
        if given[1:]:
            raise ConfigError(f"--predict: expected no {' and no '.join(given[1:])} beside it")
        return _predict(chosen, args)
    if args.file:
        return _write(chosen, args)
    return _show(chosen, args)


def _list(args: argparse.Namespace) -> int:
    reached, files = progress.load(Path()), progress.begun(Path())
    rows = [
        {
            "number": each.number,
            "title": each.title,
            "exercises": list(each.exercises),
            "state": standing(each, reached, files),
        }
        for each in LESSONS
    ]
    told = {"lessons": rows, "problem": reached.problem or None}
    return finished(args, told, text.listing(LESSONS, reached, files), problem=reached.problem)


def _show(chosen: Lesson, args: argparse.Namespace) -> int:
    """Print the lesson, and note that it was read, or that it is done."""
    reached, files = progress.load(Path()), progress.begun(Path())
    before = reached.lessons.get(str(chosen.number))
    state = progress.DONE if args.done or before == progress.DONE else progress.IN_PROGRESS
    problem = reached.problem
    if not args.no_progress:
        reached.lessons[str(chosen.number)] = state
        problem = reached.save() if state != before else problem
    told = {"state": standing(chosen, reached, files), "commands": list(chosen.commands), "problem": problem or None}
    if args.done:
        shown = f"lesson {chosen.number} is done\n\n{text.listing(LESSONS, reached, files)}"
    else:
        asked = {command: [each.asked for each in before] for command, before in questions(chosen).items()}
        shown = text.shown(chosen, reached, files, asked)
    return finished(args, asdict(chosen) | told, shown, problem=problem)


def _predict(chosen: Lesson, args: argparse.Namespace) -> int:
    """Judge an answer to one of the lesson's questions."""
    number, answer = args.predict
    asked = ((command, each) for command, before in questions(chosen).items() for each in before)
    by_number = {str(i): one for i, one in enumerate(asked, 1)}
    if number not in by_number:
        expected = f"a question of lesson {chosen.number} from 1 to {len(by_number)}"
        raise ConfigError(f"--predict: expected {expected}, got {number!r}")
    command, question = by_number[number]
    right, said = judged(question, answer)
    shown = f"{f'Right: {question.told}.' if right else f'Not yet: {said}'}\nSee it: {command}"
    return finished(args, {"ok": right, "said": said, "command": command}, shown, right)


def _write(chosen: Lesson, args: argparse.Namespace) -> int:
    if not chosen.file:
        brings = ", ".join(str(each.number) for each in LESSONS if each.file)
        raise ConfigError(f"--file: expected a lesson that brings a file ({brings}), got {chosen.number}")
    return write_template(args, args.file, broken(args.file.name), "find its fault: npformer lessons 8")
