"""A page of the repository as a page of the site: its links lead to pages, its pictures follow the theme.

On the repository's web page a link to a file shows the file. Here it leads to the page that stands for the file: an
operation's, another page of docs, or the text of the file with its lines numbered.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable

from docs.site.places import address

_FENCE = re.compile(r"^(```|~~~).*?^\1[ ]*$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_NAMED_BLOCK = re.compile(r"^```(\w+) (\S+)$", re.MULTILINE)
_PICTURE = re.compile(
    r"<picture>\s*<source [^>]*srcset=\"(?P<dark>[^\"]+)\">\s*(?P<img><img .*?>)\s*</picture>", re.DOTALL
)
_IMG = re.compile(r"<img ([^>]*?)/?>", re.DOTALL)
_ATTRIBUTE = re.compile(r"(\w+)=\"(.*?)\"", re.DOTALL)


def for_site(text: str, path: str) -> str:
    """The Markdown of the repository's file at path, for the site."""
    folder = posixpath.dirname(path)
    text = outside_code(text, lambda part: _LINK.sub(lambda found: f"]({link(found[1], folder)})", part))
    text = outside_code(text, lambda part: _pictures(part, folder))
    return _NAMED_BLOCK.sub(r"```{code-block} \1\n:caption: \2\n", text)


def link(target: str, folder: str) -> str:
    """Where a link leads that a file in this folder has; Sphinx warns of a page that is not there."""
    name, mark, anchor = target.partition("#")
    if target.startswith(("http:", "https:", "mailto:")) or not name:
        return target
    return address(posixpath.normpath(posixpath.join(folder, name))) + mark + anchor


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
