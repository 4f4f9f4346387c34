"""npformer grade: grade a learner's own forward and backward; write templates; list the exercises."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from npformer.check.report import NOT_BEGUN
from npformer.cli.common import finished, note, tell, write_template
from npformer.errors import ConfigError
from npformer.io.printable import shell_words
from npformer.io.progress_bar import Bar
from npformer.io.seconds import now, since
from npformer.lab.grader import EXERCISES, Grade, Limits, find, grade_file, progress, report, templates
from npformer.lab.grader.source import exercises_in, read_source

SUMMARY = "Grade your own forward and backward of an operation or layer."
EXAMPLES = f"""examples:
  npformer grade --list                    the exercises: done, in progress, not begun
  npformer grade --template softmax        writes softmax.py; you fill in its backward
  npformer grade softmax.py                what is right, what is wrong, and a hint
  npformer grade softmax.py --hint 3       a hint that is almost the answer
  npformer grade softmax.py --answer       the derivation and the code

A file may hold several exercises, found by the names of its functions. It runs in a separate process with
limits on time and memory, and may use NumPy only. What your backward gives to a name of the forward with a d before
it, such as dr for r, is compared with the measured derivative; other names are your own. Solved exercises are noted in
{progress.NAME} in the current folder.

The process has a fence, not a sandbox. Blocked: other programs, signals, the network, writing or changing
files, reading npformer's files, and libraries that hold or compute the answer. The grader detects a gradient that is
measured instead of derived (repeated calls of forward with one number moved, complex steps, the precision of
differences). Not blocked: C code of other packages, and deliberate attempts to fool the grader. Run a stranger's
file in a container.

exit code: 0 all right, 1 something is wrong, 2 the file cannot be graded"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    add = parser.add_argument
    add("file", nargs="?", metavar="FILE", help="your Python file; with --template, where to write")
    add("--list", action="store_true", help="list the exercises, and how far you are with them")
    add("--template", metavar="NAME", help="write NAME.py (or FILE) to fill in; NAME may be parts")
    add("--exercise", metavar="NAME", help="grade only this exercise of FILE")
    add("--hint", type=int, choices=(1, 2, 3), default=1, help="level of the hint (default: 1)")
    add("--answer", action="store_true", help="show derivation and code of FILE's exercise")
    add("--time-limit", type=float, default=10.0, metavar="S", help="seconds per exercise (10)")
    add("--no-progress", action="store_true", help=f"leave {progress.NAME} alone")


def run(args: argparse.Namespace) -> int:
    """Exit 1 unless every exercise in the file is right."""
    _expect_one_task(args)
    if args.list:
        return _list(args)
    if args.template:
        return _template(args)
    if args.answer:
        return _answer(args)
    return _grade(args)


def _expect_one_task(args: argparse.Namespace) -> None:
    """Raise ConfigError unless the options ask for one thing."""
    tasks = [name for name in ("list", "template", "answer") if getattr(args, name)]
    if len(tasks) > 1:
        raise ConfigError(f"grade: expected one of --list, --template, --answer, got --{' and --'.join(tasks)}")
    if args.list and args.file is not None:
        raise ConfigError(f"--list: expected no FILE beside it, got {args.file}; leave --list out to grade it")
    if args.file is None and not tasks:
        raise ConfigError("grade: expected a FILE, got none; npformer grade --list shows the exercises")
    if args.file is None and args.answer and not args.exercise:
        raise ConfigError("--answer: expected a FILE or --exercise NAME, got neither")
    if not 0 < args.time_limit <= 3600:
        raise ConfigError(f"--time-limit: expected 0 < seconds <= 3600, got {args.time_limit:g}")


def _list(args: argparse.Namespace) -> int:
    reached, files = progress.load(Path()), progress.begun(Path())
    rows = [
        {
            "name": exercise.name,
            "title": exercise.title,
            "state": progress.state_of(exercise.name, reached, files),
            "file": str(files[exercise.name].path) if exercise.name in files else None,
            **asdict(reached.entries.get(exercise.name, progress.ExerciseEntry())),
        }
        for exercise in EXERCISES
    ]
    told = {"exercises": rows, "problem": reached.problem or None}
    return finished(args, told, progress.overview(reached, files), problem=reached.problem)


def _template(args: argparse.Namespace) -> int:
    text = templates.all_parts() if args.template == "parts" else templates.template(find(args.template))
    path = Path(args.file or f"{args.template}.py")
    again = shell_words("npformer", "grade", path)
    then = "exercises import it" if args.template == "parts" else f"fill it in, then: {again}"
    return write_template(args, path, text, then)


def _answer(args: argparse.Namespace) -> int:
    wanted = exercises_in(read_source(Path(args.file)), args.exercise) if args.file else [find(args.exercise)]
    answers = {exercise.name: templates.answer(exercise) for exercise in wanted}
    return finished(args, {"answers": answers}, "\n\n".join(answers.values()))


def _grade(args: argparse.Namespace) -> int:
    began, path = now(), Path(args.file)
    names = [exercise.name for exercise in exercises_in(read_source(path), args.exercise)]
    grades: list[Grade] = []
    with Bar("exercises", len(names)) as bar:
        bar.note(*names[:1])
        for grade in grade_file(path, args.exercise, Limits(seconds=args.time_limit)):
            if not args.json:
                tell(("\n" if grades else "") + _text(grade, args))
            grades.append(grade)
            bar.move()
            bar.note(*names[len(grades) :][:1])
    ok = all(grade.ok for grade in grades)
    if args.json:
        exercises = [report.to_dict(grade, args.hint) for grade in grades]
        print(json.dumps({"ok": ok, "file": args.file, "exercises": exercises}))
    elif len(grades) > 1:
        right = sum(grade.ok for grade in grades)
        tell(f"\n{right} of {len(grades)} exercises are right ({since(began):.0f} s)")
    if not args.no_progress:
        _record(grades, args.hint)
    return 0 if ok else 1


def _text(grade: Grade, args: argparse.Namespace) -> str:
    text = report.report(grade, args.hint, f"npformer grade {shell_words(args.file)}")
    return f"{text}\n\n{report.following(grade)}" if grade.ok else text


def _record(grades: list[Grade], hint: int) -> None:
    reached = progress.load(Path())
    for grade in (grade for grade in grades if grade.verdict != NOT_BEGUN):
        reached.record(grade.exercise.name, grade.ok, hint if grade.faults else 0)
    note(reached.save())
