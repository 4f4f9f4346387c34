"""The pages that step through a backward pass with numbers, and their frames within the pages of the site."""

from __future__ import annotations

import npformer as npf
from docs.site.places import write
from npformer.pages import trace_page
from npformer.pages.bugs import bug_traces
from npformer.proof.showcase import showcase

#: The folder of these pages, which Sphinx copies as they are.
FOLDER = "traces"
SHOWCASE = "transformer"


def html_of(name: str) -> str:
    """The page of an operation on its sample inputs, or of the small Transformer, into which bugs can be put."""
    if name != SHOWCASE:
        return trace_page(npf.trace(name))
    right = showcase()
    return trace_page(right, bugs=bug_traces(showcase, right))


def frame(name: str, folder: str) -> str:
    """Markdown that shows the page of ``name`` within a page of this folder."""
    place = f"_extra/{FOLDER}/{name}.html"
    write(place, html_of(name))
    address = f"{'../' if folder else ''}{FOLDER}/{name}.html"
    return (
        f'<iframe class="trace" src="{address}" title="{name}, step by step" loading="lazy"></iframe>\n\n'
        f'<p class="beside"><a href="{address}">Open it on a page of its own</a></p>'
    )
