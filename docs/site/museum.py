"""The museum: a gallery of the bugs, and a page for each."""

from __future__ import annotations

import difflib
import html
import json
from functools import cache
from itertools import groupby
from typing import Any

from docs.site.curves import curves, thumbnail
from docs.site.operations import contents, formula_line
from docs.site.places import RESULTS, page_of, write
from docs.site.plain_text import sentences
from npformer.lab.museum.bug import Bug
from npformer.lab.museum.bugs import BUGS
from npformer.lab.museum.checks import all_checks
from npformer.lab.museum.patch import edited_sources

RECORD = RESULTS / "museum-bugs.json"
#: What a category is about, for the gallery.
CATEGORY = {
    "operation": "Wrong in the mathematics of a single operation.",
    "attention": "Scores, masks, weights and heads.",
    "layer": "Wrong in how a layer puts right operations together.",
    "wiring": "Wrong in how layers are joined to a model.",
    "loss": "The loss, and the gradient with which backward begins.",
    "optimiser": "Right gradients, wrong updates.",
    "training": "The loop around the step.",
    "tests that cannot fail": "The code is wrong, and its test passes.",
}


def write_all() -> None:
    """The gallery and all pages."""
    for bug in BUGS:
        write(f"museum/{bug.id}.md", page(bug))
    write("museum/index.md", gallery())


@cache
def record() -> dict[str, Any]:
    """What ``python -m benchmarks.museum_bugs`` kept; empty before it has run."""
    empty: dict[str, Any] = {"results": [], "right": {}}
    found: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.is_file() else empty
    return found


@cache
def kept(name: str) -> dict[str, Any]:
    """The record of one bug."""
    return next((row for row in record()["results"] if row["id"] == name), {})


def gallery() -> str:
    """All bugs, category by category."""
    rooms = "\n\n".join(
        f"## {category.capitalize()}\n\n{CATEGORY[category]}\n\n{room(list(bugs))}"
        for category, bugs in groupby(BUGS, key=lambda bug: bug.category)
    )
    return f"""# Museum of backward bugs

{{.lead}}
{len(BUGS)} ways to get a backward pass wrong, most of them seen in public projects. A falling loss shows few of them;
each is found by a check.

Each picture shows the training loss of two small Transformers that learn to reverse words: <span class="key
right">right</span> without the bug, <span class="key wrong">wrong</span> with it. Where the curves lie on each other,
training hides the bug. A cross marks a run that broke down.

{rooms}

{contents([bug.id for bug in BUGS])}"""


def room(bugs: list[Bug]) -> str:
    """The cards of one category, as a list."""
    cards = "".join(card(bug) for bug in bugs)
    return f'<ul class="cards bugs">{cards}</ul>'


def card(bug: Bug) -> str:
    """The picture, the title and the wrong formula of a bug, as one link."""
    row = kept(bug.id)
    none = "training does not show it" if bug.run is None else "not recorded yet"
    drawn = f'<span class="curves small none">{none}</span>'
    if "wrong" in row:
        drawn = thumbnail(right_of(row)["losses"], row["wrong"]["losses"], span())
    wrong = html.escape(" ".join(bug.wrong.split()))
    return (
        f'<li><a href="{bug.id}.html">{drawn}<strong>{html.escape(heading(bug))}</strong><code>{wrong}</code></a></li>'
    )


def heading(bug: Bug) -> str:
    """The title with a capital letter."""
    return bug.title[0].upper() + bug.title[1:]


def right_of(row: dict[str, Any]) -> dict[str, Any]:
    """The training without the bug."""
    found: dict[str, Any] = record()["right"][row["right"]]
    return found


def span() -> int:
    """How many steps each kept loss stands for."""
    return int(record()["settings"]["span"])


def page(bug: Bug) -> str:
    """The page of a bug."""
    parts = [
        f"# {sentences(heading(bug))}",
        f"{{.lead}}\n{sentences(bug.category.capitalize())}. Seen: {sentences(bug.seen)}.",
        f"::::{{container}} formulas\n:::{{container}} right\n**Right**\n\n```text\n{bug.right}\n```\n:::\n"
        f":::{{container}} wrong\n**Wrong**\n\n```text\n{bug.wrong}\n```\n:::\n::::",
        sentences(bug.story),
        f"## The change\n\n{change(bug)}",
        f"## What training shows\n\n{effect(bug)}",
        f"## What finds it\n\n{found(bug)}",
        f"## See it yourself\n\n```sh\nnpformer museum show {bug.id}\n```",
    ]
    return "\n\n".join(parts) + "\n"


def change(bug: Bug) -> str:
    """The changed functions as differences."""
    texts = []
    for target, (before, after) in edited_sources(bug.edits).items():
        module, _, name = target.partition(":")
        path = f"{module.replace('.', '/')}.py"
        shown = page_of(path)
        link = f"[{path}](../{shown}.md)" if shown else f"[{path}](repo:{path})"
        lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=3))[2:]
        body = "\n".join(line for line in lines if not line.startswith("@@"))
        texts.append(f"In `{name}` of {link}:\n\n```diff\n{body}\n```")
    return "\n\n".join(texts)


def effect(bug: Bug) -> str:
    """The two losses, and in words what came of each training."""
    row = kept(bug.id)
    if bug.run is None:
        return sentences(bug.instead)
    if "wrong" not in row:
        return "No picture is recorded yet: `python -m benchmarks.museum_bugs` makes it."
    right, wrong = right_of(row), row["wrong"]
    words = f"Training loss in nats per token. Right: {right['said']}. Wrong: {wrong['said']}."
    drawn = curves(right["losses"], wrong["losses"], span(), html.escape(words))
    steps = record()["settings"]["steps"]
    return (
        f"Training loss in nats per token, while a small Transformer learns to reverse words of up to six letters:\n\n"
        f"{drawn}\n\nAfter {steps} steps:\n\n| | |\n|---|---|\n| right | {sentences(right['said'])} |\n"
        f"| wrong | {sentences(wrong['said'])} |"
    )


def found(bug: Bug) -> str:
    """The checks that fail, with what they say."""
    row = kept(bug.id)
    if not row:
        return "Not recorded yet: `python -m benchmarks.museum_bugs` runs all checks."
    meanings = {check.name: check.meaning for check in all_checks()}
    rows = "\n".join(
        f"| {sentences(name)} | {sentences(meanings.get(name, ''))} | {sentences(formula_line(problem))} |"
        for name, problem in row["detected_by"].items()
    )
    tried = row["checks_tried"]
    diagnosis = (
        "" if row["diagnosis"] in row["detected_by"].values() else f"**Diagnosis:** {sentences(row['diagnosis'])}\n\n"
    )
    return (
        f"{len(row['detected_by'])} of the {tried} check{'s' if tried > 1 else ''} that run the changed code fail"
        f"{'s' if len(row['detected_by']) == 1 else ''}.\n\n{diagnosis}"
        f"{{.wide}}\n| check | requires | says here |\n|---|---|---|\n{rows}"
    )
