"""The museum: a gallery of the bugs, and a page for each."""

from __future__ import annotations

import difflib
import html
from itertools import groupby

from docs.site import bug_traces, recordings, traces
from docs.site.bug_traces import Shown
from docs.site.links import lesson_with
from docs.site.operations import contents
from docs.site.places import address, write
from docs.site.plain_text import sentences
from docs.site.recordings import MODELS, SHOWCASE
from npformer.check import INVARIANTS
from npformer.io.progress_bar import watched
from npformer.lab.mistake import Mistake
from npformer.lab.museum.bugs import BUGS
from npformer.lab.museum.patch import edited_sources
from npformer.lab.museum.stored import STEPS, Comparison, stored
from npformer.see.page.bugs import MOST, USUAL
from npformer.see.plot.charts import chart_drawing, comparison_chart
from npformer.see.plot.svg import Section, sheet

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
    for bug in watched(BUGS, "museum", name=lambda bug: bug.id):
        write(f"museum/{bug.id}.md", page(bug))
    for category, bugs in rooms():
        write(f"museum/{slug(category)}.md", room(category, bugs))
    write("museum/index.md", gallery())


def rooms() -> list[tuple[str, list[Mistake]]]:
    """The categories with their bugs."""
    return [(category, list(bugs)) for category, bugs in groupby(BUGS, key=lambda bug: bug.category)]


def slug(category: str) -> str:
    """The name of a category's page."""
    return category.replace(" ", "-")


def gallery() -> str:
    """The way to the rooms."""
    cards = "".join(
        f'<li><a href="{slug(category)}.html"><strong>{category.capitalize()}</strong>'
        f"<span>{CATEGORY[category]} {len(bugs)} bugs.</span></a></li>"
        for category, bugs in rooms()
    )
    return f"""# Museum of backward bugs

{{.lead}}
{len(BUGS)} ways to get a backward pass wrong, most of them seen in public projects. A falling loss shows few of them;
each is found by a check.

<ul class="cards">{cards}</ul>

{contents([slug(category) for category, _ in rooms()])}"""


def room(category: str, bugs: list[Mistake]) -> str:
    """All bugs of a category."""
    return f"""# {category.capitalize()}

{{.lead}}
{CATEGORY[category]}

Each picture shows the training loss of two small Transformers that learn to reverse words: <span class="key
right">right</span> without the bug, <span class="key wrong">wrong</span> with it. Where the curves lie on each other,
training hides the bug. A cross marks a run that broke down.

<ul class="cards bugs">{"".join(map(card, bugs))}</ul>

{contents([bug.id for bug in bugs])}"""


def card(bug: Mistake) -> str:
    """The picture, the title and the wrong formula of a bug, as one link."""
    runs = stored(bug).comparison  # the text beside the picture says what it is
    drawn = picture(bug, runs, "") if runs else '<span class="none">training does not show it</span>'
    wrong = html.escape(" ".join(bug.wrong.split()))
    return (
        f'<li><a href="{bug.id}.html">{drawn}<strong>{html.escape(bug.heading)}</strong><code>{wrong}</code></a></li>'
    )


def page(bug: Mistake) -> str:
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
        lesson_with(bug.id),
    ]
    return "\n\n".join(parts) + "\n"


def change(bug: Mistake) -> str:
    """The changed functions as differences."""
    texts = []
    for target, (before, after) in edited_sources(bug.edits).items():
        module, _, name = target.partition(":")
        path = f"{module.replace('.', '/')}.py"
        lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=3))[2:]
        body = "\n".join(line for line in lines if not line.startswith("@@"))
        texts.append(f"In `{name}` of [{path}]({address(path)}):\n\n```diff\n{body}\n```")
    return "\n\n".join(texts)


def commands(bug: Mistake) -> str:
    """The commands that show a bug."""
    return "\n".join(filter(None, [f"npformer museum show {bug.id}", bug_traces.command(bug.id)]))


def traced(bug: Mistake) -> str:
    """The bug in a trace, and the page that steps through it; or why no trace shows it."""
    one, reason = bug_traces.of_bug(bug.id), bug_traces.reason(bug)
    if one is None and not reason:
        raise LookupError(
            f"{bug.id}: expected a recording of docs/site/recordings.py that the bug changes, or a reason in "
            "docs/site/bug_traces.py, OUTSIDE; add one"
        )
    if one is None:
        return reason
    shown = f"{differing(one)}\n\n{traces.frame(one.recording, 'museum', bug.id)}"
    return f"::::{{container}} no-search\n{shown}\n::::"  # who searches for an operation wants its page, not each bug's


def differing(one: Shown) -> str:
    """The first call that differs: in the recording of a bug's page, and in a model that runs the operation."""
    text = f"Recorded without the bug and with it: {one.recording.said}."
    if one.recording.name in MODELS:
        return f"{text} The first call that differs is {first_call(one)}."
    model = bug_traces.of_model(one.found.bug.id)
    if model is None:
        return f"{text} The Transformers that are recorded here run no input on which this bug changes a number."
    said = f"{text} In {model.recording.said}, the first call that differs is {first_call(model)}."
    if model.recording.name != SHOWCASE or model.found.bug.id not in USUAL[:MOST]:
        return said
    address = f"../traces/{SHOWCASE}.html?bug={model.found.bug.id}"
    return f'{said} <a href="{address}">Step through the walk with the bug in it</a>.'


def first_call(one: Shown) -> str:
    """The first call that differs, and in which pass."""
    call = recordings.right(one.recording, lines=False).calls[one.found.first.call]
    use = f" ({call['use']})" if call["use"] > 1 else ""
    return f"`{call['name'] or call['type']}{use}`, in {one.found.first.way}"


def picture(bug: Mistake, runs: Comparison, alt: str) -> str:
    """The losses of both runs, drawn as ``npformer museum show`` draws them, in a file beside the pages."""
    drawn = chart_drawing(comparison_chart(runs.right.losses, runs.wrong.losses))
    write(f"_extra/museum/{bug.id}.svg", sheet(bug.heading, [], [Section("", "", [drawn])]))
    return f'<img class="paper" src="{bug.id}.svg" alt="{html.escape(alt)}" loading="lazy">'


def effect(bug: Mistake) -> str:
    """The two losses, and in words what came of each training."""
    runs = stored(bug).comparison
    if runs is None:
        return sentences(bug.instead)
    words = f"Training loss in nats per token. Right: {runs.right}. Wrong: {runs.wrong}."
    return (
        f"Training loss in nats per token, while a small Transformer learns to reverse words of up to six letters:\n\n"
        f"{picture(bug, runs, words)}\n\nAfter {STEPS} steps:\n\n| | |\n|---|---|\n"
        f"| right | {sentences(str(runs.right))} |\n| wrong | {sentences(str(runs.wrong))} |\n\n{runs.verdict}"
    )


def found(bug: Mistake) -> str:
    """What finds the bug, with an invariant's claim, and what it says."""
    exhibit = stored(bug)
    by, claim = sentences(exhibit.found_by), INVARIANTS.get(exhibit.found_by.removeprefix("invariant: "))
    meaning = f" ({sentences(claim.meaning)})" if claim else ""
    says = f"**{by[0].upper()}{by[1:]}**{meaning}: {sentences(exhibit.says)}"
    return f"{says}\n\n**Diagnosis:** {sentences(exhibit.diagnosis)}" if exhibit.diagnosis else says
