"""The pages that step through a backward pass with numbers, and their frames within the pages of the site."""

from __future__ import annotations

from functools import cache

from docs.site import bug_traces, recordings
from docs.site.places import FILES, write
from docs.site.recordings import Recording
from npformer.see.page import trace_page

#: The folder of these pages, which Sphinx copies as they are.
FOLDER = "traces"
#: Where they lead: by source file, and to where to start.
LINKS = {"": "../start-here.html"} | {f"npformer/functional/{name}.py": f"../operations/{name}.html" for name in FILES}


@cache
def html_of(recording: Recording) -> str:
    """The page of a recording, into which the bugs that it shows can be put."""
    return trace_page(recordings.right(recording), bugs=bug_traces.on_page_of(recording), links=LINKS)


def button(recording: Recording, text: str) -> str:
    """A link of a page at the site's root to the page of a recording, as the first thing to do."""
    place = f"{FOLDER}/{recording.name}.html"
    write(f"_extra/{place}", html_of(recording))
    return f'<p class="go"><a href="{place}">{text}</a></p>'


def frame(recording: Recording, folder: str, bug: str = "") -> str:
    """Markdown that shows the page of a recording within a page of this folder, with a bug in it or without one."""
    place = f"_extra/{FOLDER}/{recording.name}.html"
    write(place, html_of(recording))
    asked = f"?bug={bug}" if bug else ""
    address = f"{'../' if folder else ''}{FOLDER}/{recording.name}.html{asked}"
    name = f"{recording.name}{f' with {bug}' if bug else ''}"
    return (
        f'<iframe class="trace" src="{address}" title="{name}, step by step" loading="lazy"></iframe>\n\n'
        f'<p class="beside"><a href="{address}">Open it on a page of its own</a></p>'
    )
