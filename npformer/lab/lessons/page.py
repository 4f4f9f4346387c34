"""The lessons as a page of docs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from npformer.io.terminal import fill
from npformer.lab.lessons.lessons import Lesson, Step

WIDTH = 120
#: A file of npformer in a sentence, which the page links.
FILE = re.compile(r"\b((?:npformer|docs|examples)/[\w/]+\.(?:py|md))")


def page(lessons: Sequence[Lesson]) -> str:
    """The lessons in Markdown, below headings of the second level."""
    return "\n".join(_lesson(lesson) for lesson in lessons)


def _lesson(lesson: Lesson) -> str:
    parts = [f"## {lesson.number}. {lesson.title}", _filled(lesson.idea)]
    for title, steps in lesson.parts:
        parts += [f"**{title}.**", "\n".join(map(_item, steps))]
    return "\n\n".join(parts) + "\n"


def _item(step: Step) -> str:
    text = FILE.sub(_link, step.text)
    return _filled(f"`{step.command}`. {text}" if step.command else text, "- ")


def _link(match: re.Match[str]) -> str:
    name = match[1]
    return f"[{name}]({name.removeprefix('docs/') if name.startswith('docs/') else '../' + name})"


def _filled(text: str, first: str = "") -> str:
    return fill(text, WIDTH, first, " " * len(first))
