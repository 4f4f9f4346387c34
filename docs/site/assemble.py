"""Writes the sources of all pages: those of docs as they are, and those made from the code."""

from __future__ import annotations

import re
import shutil

from docs.site import api, course, experiments, museum, operations, places, recordings, sources, traces, walk
from docs.site.font import write_font
from docs.site.here import page as here
from docs.site.links import for_site
from docs.site.operations import contents
from docs.site.places import PAGES, ROOT, SITE, SOURCES, write

#: The heading of the README above which its first page ends here: what follows is the sidebar's work.
_END = "## Where to go next"
_CARDS = "## First steps"
#: What stands before all else: one question, and one action.
_START = "{.lead}\nA Transformer wrote a wrong letter. Which, and by how much? [Start here](/start-here.md)"
CAPTIONS: dict[str, tuple[str, ...]] = {
    "Learn": (
        "start-here", "walk", "lessons", "course/index", "operations/index", "museum/index", "derive", "explain",
        "gradient-sizes", "trace-page", "experiments/index", "examples", "check_your_own_kernel",
        "training-your-own-data", "replacing-a-part", "architecture",
    ),
    "Look up": (
        "commands", "options", "runs", "api/index", "notebooks", "pytorch-weights", "processes", "gpu", "judge",
        "trace-format", "adding-an-operation", "coverage", "proof", "measured", "speed", "contributing", "releasing",
        "changelog",
    ),
}  # fmt: skip
OTHERS = "Look up"
_SAID = {
    "walk": ("The walk", "One batch through the whole Transformer, forward and back, with its numbers."),
    "operations/index": ("Operations", "Formula, derivation and code of every operation, forward and backward."),
    "course/index": ("Course", "Write every backward yourself. The grader says what is wrong, and why."),
    "museum/index": ("Museum", "The ways to get a backward pass wrong, and what finds each."),
    "experiments/index": ("Experiments", "What is said of Transformers, tried: tables and pictures."),
    "check_your_own_kernel": ("Check your own", "Is the gradient that you wrote right? NumPy, PyTorch or JAX."),
}


def write_all() -> None:
    """All sources, and nothing that an earlier build has left."""
    places.written.clear()
    made = {"index": index, "start-here": start}
    for path, name in PAGES.items():
        text = (ROOT / path).read_text(encoding="utf-8")
        write(f"{name}.md", made[name](text) if name in made else for_site(text, path))
    for part in (here, operations, walk, course, museum, experiments, api):
        part.write_all()
    sources.write_all()
    (SOURCES / "_extra").mkdir(exist_ok=True)
    write_font()
    _remove_what_is_left()


def index(readme: str) -> str:
    """The first page: the README up to its list of pages, the cards, and the contents of the site."""
    text = for_site(readme.partition(_END)[0], "README.md")
    head, mark, rest = text.partition(_CARDS)
    listed = {page for pages in CAPTIONS.values() for page in pages} | {"index", "operations/contract"}
    others = [page for page in PAGES.values() if page not in listed]  # a new page of docs is found without being named
    trees = "\n".join(
        contents([*pages, *(others if caption == OTHERS else ())]).replace(":hidden:", f":hidden:\n:caption: {caption}")
        for caption, pages in CAPTIONS.items()
    )
    title, _, head = re.sub(r"\*\*Start here.*?\n\n", "", head, count=1, flags=re.DOTALL).partition("\n\n")
    first = f"{title}\n\n{_START}\n\n{action('Open the page of its numbers')}\n\n{questions()}"
    return f"{first}\n\n{head}{cards()}\n\n{mark}{rest}{trees}"


def action(text: str) -> str:
    """The link to the page that the start page speaks of."""
    return traces.button(recordings.model(recordings.SHOWCASE), text)


def start(text: str) -> str:
    """The start page: below its command, the page that the command makes; the list of questions has a name."""
    command, fence, rest = for_site(text, "docs/start-here.md").partition("--html page.html\n```\n")
    rest = rest.replace("\n- [", '\n<a id="questions"></a>\n\n- [', 1)
    return f"{command}{fence}\n{action('Open the page')}\n{rest}"


def questions() -> str:
    """The questions of the start page, as links to their answers."""
    titles = re.findall(r"^## (.*)$", (ROOT / "docs" / "start-here.md").read_text(encoding="utf-8"), re.MULTILINE)
    return "\n".join(f"- [{title}](/start-here.md#{anchor(title)})" for title in titles)


def anchor(title: str) -> str:
    """The name of a heading within its page, as MyST and GitHub make it."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def cards() -> str:
    """Where to begin."""
    items = "".join(
        f'<li><a href="{page}.html"><strong>{name}</strong><span>{said}</span></a></li>'
        for page, (name, said) in _SAID.items()
    )
    return f'<ul class="cards">{items}</ul>'


def _remove_what_is_left() -> None:
    """Pages that are no more go, and then the HTML is made anew, lest it keep theirs."""
    left = [path for path in SOURCES.rglob("*") if path.is_file() and path not in places.written]
    for path in left:
        path.unlink()
    if left and SITE.exists():
        shutil.rmtree(SITE)
