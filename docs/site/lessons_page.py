"""The lessons as a page of docs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import TypeAlias

from npformer.io.terminal import fill
from npformer.lab.lessons.lessons import Lesson, LessonStep

WIDTH = 120
#: A file of npformer in a sentence, which the page links.
FILE = re.compile(r"\b((?:npformer|docs|examples)/[\w/]+\.(?:py|md))")
#: Command -> the questions before it, each with its answer.
Asked: TypeAlias = Mapping[str, Sequence[tuple[str, str]]]


def page(lessons: Sequence[Lesson], asked: Callable[[Lesson], Asked]) -> str:
    """The lessons in Markdown, below headings of the second level; asked: the questions of a lesson."""
    return "\n".join(_lesson(lesson, asked(lesson)) for lesson in lessons)


def _lesson(lesson: Lesson, asked: Asked) -> str:
    parts = [f"## {lesson.number}. {lesson.title}", _filled(lesson.idea)]
    number = count(1)
    left = {command: "".join(_question(next(number), *each) for each in asked[command]) for command in asked}
    for title, steps in lesson.parts:
        items = [left.pop(step.command, "") + _item(step) for step in steps]
        parts += [f"**{title}.**", "\n".join(items)]
    return "\n\n".join(parts) + "\n"


def _question(number: int, question: str, answer: str) -> str:
    """A question, its answer folded away."""
    said = _filled(f"Predict {number}: {question}", "- ")
    return f"{said}\n  <details><summary>Answer</summary>{answer}</details>\n"


def _item(step: LessonStep) -> str:
    text = FILE.sub(_link, step.text)
    return _filled(f"`{step.command}`. {text}" if step.command else text, "- ")


def _link(match: re.Match[str]) -> str:
    name = match[1]
    return f"[{name}]({name.removeprefix('docs/') if name.startswith('docs/') else '../' + name})"


def _filled(text: str, first: str = "") -> str:
    return fill(text, WIDTH, first, " " * len(first))
