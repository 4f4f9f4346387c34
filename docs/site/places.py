"""Where things are: the folders of a build, and the page that stands for a file of the repository."""

from __future__ import annotations

from pathlib import Path

from benchmarks.measured import COMMANDS
from npformer import functional

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
RESULTS = ROOT / "benchmarks" / "results"
#: What a build writes; all of it may be deleted.
BUILD = ROOT / "build"
SOURCES, SITE = BUILD / "site-sources", BUILD / "site"

#: The sources that the current build has written.
written: set[Path] = set()

#: Pages that are files of the repository.
PAGES: dict[str, str] = {
    "README.md": "index",
    "CHANGELOG.md": "changelog",
    "CONTRIBUTING.md": "contributing",
    "examples/README.md": "examples",
    "npformer/functional/README.md": "operations/contract",
} | {f"docs/{path.name}": path.stem for path in sorted(DOCS.glob("*.md"))}

#: The files of functional that have a page, in reading order: those of the operations, and those that these need.
FILES: tuple[str, ...] = tuple(
    name
    for name in (functional.__doc__ or "").split("``")[1::2]
    if (ROOT / "npformer" / "functional" / f"{name}.py").is_file() and name not in ("operation", "arrays", "derivation")
)
#: Experiments that have a page: name, as in its module -> as its result is called.
EXPERIMENTS: dict[str, str] = {
    name.removeprefix("experiment-").replace("-", "_"): name for name in COMMANDS if name.startswith("experiment-")
}


def page_of(path: str) -> str | None:
    """The name of the page that shows a file or a folder of the repository, or None: then it has a page of its text."""
    if path in PAGES:
        return PAGES[path]
    if path.rstrip("/") == "npformer/functional":
        return "operations/index"
    folder, _, name = path.rpartition("/")
    if folder == "npformer/functional" and name.removesuffix(".py") in FILES:
        return f"operations/{name.removesuffix('.py')}"
    if folder == "examples/experiments" and name.removesuffix(".py") in EXPERIMENTS:
        return f"experiments/{name.removesuffix('.py')}"
    return None


def text_page(path: str) -> str:
    """The name of the page with the text of a file, or with the list of a folder."""
    return f"files/{path.rstrip('/')}" + ("/index" if (ROOT / path).is_dir() else "")


def address(path: str) -> str:
    """Where a link of a page leads that names a file or a folder of the repository."""
    return f"/{page_of(path) or text_page(path)}.md"


def write(page: str, text: str) -> None:
    """Write the source of a page, unless it is there already: Sphinx reads again what is new."""
    path = SOURCES / page
    written.add(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
