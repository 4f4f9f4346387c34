"""A page for each file of the repository that a page names, with the file's text and numbered lines.

Links ``repo:PATH`` lead to these pages, and so does each name of a file between backticks: `tests/test_readme.py`,
`tests/functional/test_linear.py::test_values`. A name of an operation's file leads to the operation's page. A folder's
page lists its files.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import TextLexer, get_lexer_for_filename
from pygments.util import ClassNotFound
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms import SphinxTransform
from sphinx.util import logging

from docs.site.places import ROOT, page_of, text_page

NAMED = re.compile(r"((?:npformer|tests|benchmarks|examples|docs)/[\w/.-]+)(?:::(\w+))?")
#: A file with more lines is shown up to here.
LONGEST = 4000
_log = logging.getLogger(__name__)


class Resolve(SphinxTransform):
    """Makes links of names of files, and leads ``repo:PATH`` to pages."""

    default_priority = 900

    def apply(self, **options: Any) -> None:
        for literal in list(self.document.findall(nodes.literal)):
            named = NAMED.fullmatch(literal.astext())
            if named and (ROOT / named[1]).exists() and not isinstance(literal.parent, nodes.reference):
                link = nodes.reference("", "", internal=True, refuri="repo:" + literal.astext())
                literal.replace_self(link)
                link += literal
        for reference in list(self.document.findall(nodes.reference)):
            address = reference.get("refuri", "")
            if address.startswith("repo:"):
                reference["refuri"] = self.address(address.removeprefix("repo:"), reference)
                reference["internal"] = True

    def address(self, target: str, node: nodes.Node) -> str:
        """Where PATH, PATH#anchor or PATH::function leads from this page; a warning if there is no such file."""
        path, _, anchor = target.partition("#")
        path, _, function = path.partition("::")
        if not (ROOT / path).exists():
            _log.warning("repo:%s: expected a file or folder of the repository, found none", path, location=node)
        page = None if anchor.startswith("L-") else page_of(path)  # who asks for a line gets the text
        if page is None:
            page = text_page(path)
            _wanted(self.env).setdefault(self.env.docname, set()).add(path.rstrip("/"))
            anchor = anchor or (f"L-{line_of(path, function)}" if function else "")
        uri: str = self.app.builder.get_relative_uri(self.env.docname, page)
        return uri + (f"#{anchor}" if anchor else "")


def line_of(path: str, function: str) -> int:
    """The line on which a file defines a function; 1 if it does not."""
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
    return next((i for i, line in enumerate(lines, 1) if re.match(rf"\s*def {function}\b", line)), 1)


def _wanted(env: BuildEnvironment) -> dict[str, set[str]]:
    """Name of a page -> the files that it names."""
    if not hasattr(env, "npformer_files"):
        env.npformer_files = {}  # type: ignore[attr-defined]
    found: dict[str, set[str]] = env.npformer_files  # type: ignore[attr-defined]
    return found


def _purge(app: Sphinx, env: BuildEnvironment, docname: str) -> None:
    _wanted(env).pop(docname, None)


def _merge(app: Sphinx, env: BuildEnvironment, docnames: list[str], other: BuildEnvironment) -> None:
    _wanted(env).update({name: files for name, files in _wanted(other).items() if name in docnames})


def _pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """All pages of files, those in a folder that is shown among them."""
    if app.builder.format != "html":
        return
    waiting = sorted(set().union(*_wanted(app.env).values()))
    done: set[str] = set()
    while waiting:
        path = waiting.pop()
        if path not in done:
            done.add(path)
            body, more = _folder(path) if (ROOT / path).is_dir() else (_file(path), [])
            waiting += [each for each in more if page_of(each) is None]
            yield text_page(path), {"title": path, "body": body, "toc": "", "display_toc": False}, "page.html"


def _folder(path: str) -> tuple[str, list[str]]:
    """A list of what stands in a folder, and the paths of that."""
    here = [p for p in sorted((ROOT / path).iterdir()) if p.suffix in (".py", ".cu", ".cuh", ".md") or _has_files(p)]
    rows, found = [], []
    for each in here:
        inner = each.relative_to(ROOT).as_posix()
        page = page_of(inner) or text_page(inner)
        rows.append(f'<li><a href="{_up(path)}{page}.html"><code>{each.name}</code></a> {_sentence(each)}</li>')
        found.append(inner)
    return f"<h1><code>{path}</code></h1><ul>{''.join(rows)}</ul>", found


def _has_files(path: Path) -> bool:
    return path.is_dir() and not path.name.startswith(("_", ".")) and any(path.glob("*.py"))


def _up(path: str) -> str:
    """From the page of a folder to the site's own."""
    return "../" * (path.count("/") + 2)


def _sentence(path: Path) -> str:
    """The first line of a module's or package's docstring."""
    file = path / "__init__.py" if path.is_dir() else path
    text = file.read_text(encoding="utf-8") if file.suffix == ".py" and file.is_file() else ""
    return html.escape(text[3:].partition("\n")[0].strip('" ')) if text.startswith('"""') else ""


def _file(path: str) -> str:
    """The text of a file, coloured, its lines numbered; ``#L-12`` leads to line 12."""
    text = (ROOT / path).read_text(encoding="utf-8", errors="replace")
    lines = text.splitlines(keepends=True)
    try:
        lexer = get_lexer_for_filename(path)
    except ClassNotFound:
        lexer = TextLexer()
    if len(lines) > 2 * LONGEST:
        lexer = TextLexer()
    code = highlight("".join(lines[:LONGEST]), lexer, HtmlFormatter(linenos="inline", lineanchors="L", wrapcode=True))
    left = f"<p>{len(lines) - LONGEST} more lines.</p>" if len(lines) > LONGEST else ""
    return f'<h1><code>{html.escape(path)}</code></h1><div class="highlight-file notranslate">{code}</div>{left}'


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the links and the pages."""
    app.add_transform(Resolve)
    app.connect("env-purge-doc", _purge)
    app.connect("env-merge-info", _merge)
    app.connect("html-collect-pages", _pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
