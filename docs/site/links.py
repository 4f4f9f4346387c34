"""A page of the repository as a page of the site: links and commands lead to pages, pictures follow the theme.

On the repository's web page a link to a file shows the file. Here it leads to the page that stands for the file: an
operation's, another page of docs, or the text of the file with its lines numbered.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence

from docs.site.places import address
from npformer.functional import OPERATIONS
from npformer.lab.grader.exercises import BY_NAME
from npformer.lab.lessons import LESSONS
from npformer.lab.museum.bugs import BUGS

_FENCE = re.compile(r"^(```|~~~).*?^\1[ ]*$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_NAMED_BLOCK = re.compile(r"^```(\w+) (\S+)$", re.MULTILINE)
_COMMAND = re.compile(r"(?<!\[)`npformer (explain|grade|museum)\s([^`]+)`")
_PICTURE = re.compile(
    r"<picture>\s*<source [^>]*srcset=\"(?P<dark>[^\"]+)\">\s*(?P<img><img .*?>)\s*</picture>", re.DOTALL
)
_IMG = re.compile(r"<img ([^>]*?)/?>", re.DOTALL)
_ATTRIBUTE = re.compile(r"(\w+)=\"(.*?)\"", re.DOTALL)


def for_site(text: str, path: str) -> str:
    """The Markdown of the repository's file at path, for the site."""
    folder = posixpath.dirname(path)
    text = outside_code(text, lambda part: _LINK.sub(lambda found: f"]({link(found[1], folder)})", part))
    text = outside_code(text, lambda part: _COMMAND.sub(_linked, part))
    text = outside_code(text, lambda part: _pictures(part, folder))
    return _NAMED_BLOCK.sub(r"```{code-block} \1\n:caption: \2\n", text)


def link(target: str, folder: str) -> str:
    """Where a link leads that a file in this folder has; Sphinx warns of a page that is not there."""
    name, mark, anchor = target.partition("#")
    if target.startswith(("http:", "https:", "mailto:")) or not name:
        return target
    return address(posixpath.normpath(posixpath.join(folder, name))) + mark + anchor


def page_of_command(command: str, words: Sequence[str]) -> str:
    """The page of what a command shows: an operation, an exercise, a bug; "" if it has none."""
    names = [word.removesuffix(".py") for word in words]
    if command == "explain":
        return (
            address(f"{OPERATIONS[names[0]].forward.__module__.replace('.', '/')}.py") if names[0] in OPERATIONS else ""
        )
    known = BY_NAME if command == "grade" else {bug.id for bug in BUGS}
    folder = "course" if command == "grade" else "museum"
    return f"/{folder}/{next((name for name in names if name in known), 'index')}.md"


def _linked(found: re.Match[str]) -> str:
    page = page_of_command(found[1], found[2].split())
    return f"[{found[0]}]({page})" if page else found[0]


def lesson_with(name: str) -> str:
    """A sentence with a link to the lesson that has this exercise or bug; "" if none has."""
    for each in LESSONS:
        if name in (*each.exercises, each.bug):
            title = f"{each.number}. {each.title}"
            return f"[Lesson {title}](/lessons.md#{re.sub('[^a-z0-9]+', '-', title.lower())}) has it."
    return ""


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """The text with everything changed but fenced blocks."""
    parts, start = [], 0
    for block in _FENCE.finditer(text):
        parts += [change(text[start : block.start()]), block[0]]
        start = block.end()
    return "".join([*parts, change(text[start:])])


def _pictures(text: str, folder: str) -> str:
    """HTML's pictures as directives: Sphinx copies the files, and the theme shows the one for light or for dark."""

    def pair(found: re.Match[str]) -> str:
        shown = dict(_ATTRIBUTE.findall(found["img"]))
        return f"{_image(shown, folder, 'only-light')}\n\n{_image(shown | {'src': found['dark']}, folder, 'only-dark')}"

    text = _PICTURE.sub(pair, text)
    return _IMG.sub(lambda found: _image(dict(_ATTRIBUTE.findall(found[1])), folder, ""), text)


def _image(attributes: dict[str, str], folder: str, name: str) -> str:
    path = posixpath.normpath(posixpath.join(folder, attributes["src"]))
    lines = [f"```{{image}} /../../{path}", f":alt: {' '.join(attributes['alt'].split())}"]
    lines += [f":width: {attributes['width']}px"] if "width" in attributes else []
    return "\n".join([*lines, *([f":class: {name}"] if name else []), "```"])
