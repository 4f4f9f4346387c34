"""A page for each file of the repository that a page names, with the file's text and numbered lines.

Links to files lead to these pages, and so does each name of a file between backticks: `tests/test_readme.py`,
`tests/functional/test_linear.py::test_values`. A name of an operation's file leads to the operation's page. A folder's
page lists its files, which have pages only if they are named themselves. A command between backticks leads to the page
of the bug, exercise or operation that it names.
"""

from __future__ import annotations

import re
from collections.abc import Set
from pathlib import Path
from typing import Any

from docutils import nodes
from pygments.lexers import find_lexer_class_for_filename
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

from docs.site import places
from docs.site.places import ROOT, address, page_of, text_page, write
from docs.site.plain_text import sentences
from npformer.functional import OPERATIONS
from npformer.lab.grader import EXERCISES
from npformer.lab.museum.bugs import BUGS

NAMED = re.compile(r"((?:npformer|tests|benchmarks|examples|docs)/[\w/.-]+)(?:::(\w+))?")
_IN_MARKDOWN = re.compile(rf"`{NAMED.pattern}`|\]\(/files/([^)\s]+?)(?:/index)?\.md\)")
_COMMAND = re.compile(
    r"npformer (museum|grade|explain|gradcheck|certify)(?: show| --template| --only)? ([\w-]+?)(?:\.py)?(?: --\w+)?"
)
_HEAD = "---\norphan: true\nnosearch: true\n---\n# {path}\n\n"


def write_all() -> None:
    """A page for each file and folder that a page written before names."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(places.written) if path.suffix == ".md"]
    found = {match for text in texts for match in _IN_MARKDOWN.findall(text)}
    paths = {ROOT / (named or linked).rstrip("/") for named, _, linked in found if linked or page_of(named) is None}
    for path in filter(Path.exists, paths):
        _write(path, paths)


def _write(path: Path, paths: Set[Path]) -> None:
    """The page of a file, or of a folder with the list of what is in it: what is among paths has a page, too."""
    name = path.relative_to(ROOT).as_posix()
    if path.is_dir():
        inside = [
            p for p in sorted(path.iterdir()) if p.suffix in (".py", ".c", ".rs", ".cu", ".cuh", ".md") or _has_files(p)
        ]
        listed = "\n".join(f"- {_name(p, paths)} {_sentence(p)}" for p in inside)
        write(f"{text_page(name)}.md", f"{_HEAD.format(path=sentences(name))}{listed}\n")
    else:
        lexer = find_lexer_class_for_filename(path.name)
        language = lexer.aliases[0] if lexer else "text"
        shown = f"```{{literalinclude}} /../../{name}\n:language: {language}\n:linenos:\n:force:\n:class: file\n```\n"
        write(f"{text_page(name)}.md", _HEAD.format(path=sentences(name)) + shown)


def _name(path: Path, paths: Set[Path]) -> str:
    """A name in the list of a folder, with a link to its page if it has one."""
    place = path.relative_to(ROOT).as_posix()
    return f"[`{path.name}`]({address(place)})" if path in paths or page_of(place) else f"`{path.name}`"


def _has_files(path: Path) -> bool:
    return path.is_dir() and not path.name.startswith(("_", ".")) and any(path.glob("*.py"))


def _sentence(path: Path) -> str:
    """The first line of a module's or package's docstring."""
    file = path / "__init__.py" if path.is_dir() else path
    text = file.read_text(encoding="utf-8") if file.suffix == ".py" and file.is_file() else ""
    return sentences(text[3:].partition("\n")[0].strip('" ')) if text.startswith('"""') else ""


class Resolve(SphinxTransform):
    """Makes links of names of files, and names the lines of those that are shown whole."""

    default_priority = 900

    def apply(self, **options: Any) -> None:
        for literal in list(self.document.findall(nodes.literal)):
            named = NAMED.fullmatch(literal.astext())
            page = page_of_command(literal.astext())
            uri = self.uri(*named.groups()) if named and _has_page(named[1]) else page and self.uri_of(page)
            if uri and not isinstance(literal.parent, nodes.reference):
                literal.replace_self(nodes.reference("", "", literal.deepcopy(), refuri=uri, internal=True))
        for block in self.document.findall(nodes.literal_block):
            if "file" in block["classes"]:
                block["highlight_args"] = {"lineanchors": "L"}

    def uri(self, path: str, function: str | None) -> str:
        """Where a name of a file leads from this page; with a function, to the line that defines it."""
        page = page_of(path) or text_page(path)
        anchor = f"#L-{line_of(path, function)}" if function and page_of(path) is None else ""
        return self.uri_of(page) + anchor

    def uri_of(self, page: str) -> str:
        """Where a page is from this one."""
        return str(self.app.builder.get_relative_uri(self.env.docname, page))


def _has_page(path: str) -> bool:
    return (ROOT / path).exists() and (places.SOURCES / f"{page_of(path) or text_page(path)}.md").exists()


def page_of_command(text: str) -> str | None:
    """The page of what a command names: a bug, an exercise or an operation; None if it names none."""
    found = _COMMAND.fullmatch(text)
    command, name = found.groups() if found else ("", "")
    if command == "museum":
        return f"museum/{name}" if name in {bug.id for bug in BUGS} else None
    if command == "grade":
        return f"course/{name}" if name in {each.name for each in EXERCISES} else None
    return f"operations/{OPERATIONS[name].forward.__module__.rpartition('.')[2]}" if name in OPERATIONS else None


def line_of(path: str, function: str) -> int:
    """The line on which a file defines a function; 1 if it does not."""
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
    return next((i for i, line in enumerate(lines, 1) if re.match(rf"\s*def {function}\b", line)), 1)


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the links."""
    app.add_transform(Resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
