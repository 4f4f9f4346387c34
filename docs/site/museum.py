"""The museum: a gallery of the bugs, and a page for each."""

from __future__ import annotations

import difflib
import html
import math
from functools import cache
from itertools import groupby

from docs.site import bug_sections, bug_traces, traces
from docs.site.curves import curves, thumbnail
from docs.site.operations import contents, formula_line
from docs.site.places import address, write
from docs.site.plain_text import sentences
from npformer.lab.museum.bug import Bug
from npformer.lab.museum.bugs import BUGS
from npformer.lab.museum.checks import all_checks
from npformer.lab.museum.demonstration import STEPS, Course
from npformer.lab.museum.patch import edited_sources
from npformer.lab.museum.stored import Exhibit, stored

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


#: Each point of a drawn curve is the mean loss of so many steps.
SPAN = 5


@cache
def kept(name: str) -> Exhibit | None:
    """What ``python -m benchmarks.museum`` stored of one bug; None before it has run."""
    return stored(next(bug for bug in BUGS if bug.id == name))


def losses(course: Course) -> list[float | None]:
    """The mean losses of SPAN steps each; None where one is no finite number."""
    parts = [course.losses[start : start + SPAN] for start in range(0, len(course.losses), SPAN)]
    return [math.fsum(part) / len(part) if all(map(math.isfinite, part)) else None for part in parts]


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
    exhibit = kept(bug.id)
    none = "training does not show it" if bug.run is None else "not recorded yet"
    drawn = f'<span class="curves small none">{none}</span>'
    if exhibit and exhibit.comparison:
        drawn = thumbnail(losses(exhibit.comparison.right), losses(exhibit.comparison.wrong), SPAN)
    wrong = html.escape(" ".join(bug.wrong.split()))
    return (
        f'<li><a href="{bug.id}.html">{drawn}<strong>{html.escape(bug.heading)}</strong><code>{wrong}</code></a></li>'
    )


def page(bug: Bug) -> str:
    """The page of a bug."""
    parts = [
        f"# {sentences(bug.heading)}",
        f"{{.lead}}\n{sentences(bug.category.capitalize())}. Seen: {sentences(bug.seen)}.",
        f"::::{{container}} formulas\n:::{{container}} right\n**Right**\n\n```text\n{bug.right}\n```\n:::\n"
        f":::{{container}} wrong\n**Wrong**\n\n```text\n{bug.wrong}\n```\n:::\n::::",
        sentences(bug.story),
        f"## The change\n\n{change(bug)}",
        f"## Where the numbers differ\n\n{traced(bug)}",
        f"## What training shows\n\n{effect(bug)}",
        f"## What finds it\n\n{found(bug)}",
        f"## See it yourself\n\n```sh\n{commands(bug)}\n```",
    ]
    return "\n\n".join(parts) + "\n"


def change(bug: Bug) -> str:
    """The changed functions as differences."""
    texts = []
    for target, (before, after) in edited_sources(bug.edits).items():
        module, _, name = target.partition(":")
        path = f"{module.replace('.', '/')}.py"
        lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=3))[2:]
        body = "\n".join(line for line in lines if not line.startswith("@@"))
        texts.append(f"In `{name}` of [{path}]({address(path)}):\n\n```diff\n{body}\n```")
    return "\n\n".join(texts)


def commands(bug: Bug) -> str:
    """The commands that show a bug."""
    return "\n".join(filter(None, [f"npformer museum show {bug.id}", bug_traces.command(bug.id)]))


def traced(bug: Bug) -> str:
    """The bug in a trace, and the page that steps through it; or why no trace shows it."""
    one, reason = bug_traces.of_bug(bug.id), bug_traces.reason(bug)
    if one is None and not reason:
        raise LookupError(
            f"{bug.id}: expected a recording of docs/site/recordings.py that the bug changes, or a reason in "
            "docs/site/bug_traces.py, OUTSIDE; add one"
        )
    if one is None:
        return reason
    shown = f"{bug_sections.section(one)}\n\n{traces.frame(one.recording, 'museum', bug.id)}"
    return f"::::{{container}} no-search\n{shown}\n::::"  # who searches for an operation wants its page, not each bug's


def effect(bug: Bug) -> str:
    """The two losses, and in words what came of each training."""
    exhibit = kept(bug.id)
    if bug.run is None:
        return sentences(bug.instead)
    if exhibit is None or exhibit.comparison is None:
        return "No picture is stored yet: `python -m benchmarks.museum` makes it."
    right, wrong = exhibit.comparison.right, exhibit.comparison.wrong
    words = f"Training loss in nats per token. Right: {right}. Wrong: {wrong}."
    drawn = curves(losses(right), losses(wrong), SPAN, html.escape(words))
    return (
        f"Training loss in nats per token, while a small Transformer learns to reverse words of up to six letters:\n\n"
        f"{drawn}\n\nAfter {STEPS} steps:\n\n| | |\n|---|---|\n| right | {sentences(str(right))} |\n"
        f"| wrong | {sentences(str(wrong))} |"
    )


def found(bug: Bug) -> str:
    """The checks that fail, with what they say."""
    exhibit = kept(bug.id)
    if exhibit is None:
        return "Not stored yet: `python -m benchmarks.museum` runs all checks."
    problems, tried, said = exhibit.detections.problems, exhibit.detections.tried, exhibit.detections.diagnosis
    meanings = {check.name: check.meaning for check in all_checks()}
    rows = "\n".join(
        f"| {sentences(name)} | {sentences(meanings.get(name, ''))} | {sentences(formula_line(problem))} |"
        for name, problem in problems.items()
    )
    diagnosis = "" if said in problems.values() else f"**Diagnosis:** {sentences(said)}\n\n"
    return (
        f"{len(problems)} of the {tried} check{'s' if tried > 1 else ''} that run the changed code fail"
        f"{'s' if len(problems) == 1 else ''}.\n\n{diagnosis}"
        f"{{.wide}}\n| check | requires | says here |\n|---|---|---|\n{rows}"
    )
