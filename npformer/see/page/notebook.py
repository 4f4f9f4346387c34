"""What a notebook shows: a check, claims and a model as tables; a trace and a run as their pages, in a frame.

A table has the notebook's own ink and paper, light or dark; a verdict brings both with it. All text is escaped. A frame
is a sandbox: the script of its page runs, but reaches nothing of the notebook.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from functools import singledispatch
from typing import Any

from npformer.check.report import HEADER, Claim, Report, Row
from npformer.io.printable import escaped, visible
from npformer.layers import Layer
from npformer.layers.tree import HEADER as PARTS
from npformer.layers.tree import tree_of
from npformer.run.summary import RunSummary
from npformer.see.page.report import report_page, table, td, th
from npformer.see.page.trace_writer import trace_page
from npformer.see.record import Trace

#: A trace with more bytes of numbers is not shown as its page, which holds several times as many with its evidence.
MOST_BYTES = 1_000_000
_STYLE = (
    "<style>.npformer table{border-collapse:collapse}"
    ".npformer table caption{color:inherit;text-align:left;font-weight:600;padding:4px 0}"
    ".npformer.npformer table :is(th,td){text-align:left;vertical-align:top;padding:2px 14px 2px 0;font-weight:400}"
    ".npformer table thead th{font-weight:600}.npformer table tbody th{white-space:pre;font-family:monospace}"
    ".npformer .report :is(td,thead th):nth-child(n+2):nth-last-child(n+2),.npformer .model tr>:nth-child(3)"
    "{text-align:right;white-space:nowrap}"
    ".npformer b{padding:0 5px;border-radius:3px;white-space:nowrap}.npformer .right{color:#fff;background:#0f6b3f}"
    ".npformer .wrong{color:#fff;background:#a3141f}.npformer .unclear{color:#fff;background:#7a3e00}"
    ".npformer .quiet{font-weight:400;padding:0}</style>"
)


@singledispatch
def html_of(thing: Any) -> str:
    """The HTML of a thing in a notebook; its text, unless there is more."""
    return f"<pre>{html.escape(visible(thing, keep=chr(10)))}</pre>"


@html_of.register
def _(report: Report) -> str:
    if report.claims:
        claims = [[th(claim.name), _verdict(claim)] for claim in report.claims]
        return _shown(report.name, ("claim", "verdict"), claims, report.remarks())
    head = ("tensor", "shape", "elements", *HEADER[3:])
    rows = [[th(row.tensor), *map(td, row.cells()[1:]), _verdict(row)] for row in report.rows]
    return _shown(report.name, head, rows, report.remarks(), "report")


@html_of.register
def _(layer: Layer) -> str:
    rows = [[th(part), *map(td, cells)] for part, *cells in tree_of(layer).rows()]
    return _shown(f"{type(layer).__name__}: {layer.num_parameters():,} parameters", PARTS, rows, kind="model")


@html_of.register
def _(trace: Trace) -> str:
    size = sum(x.nbytes for x in trace.arrays.values())
    if size > MOST_BYTES:
        advice = (
            f"The page of {size:,} bytes of numbers is too large for a notebook. "
            'npformer.see.page.write_trace_page(trace, "trace.html") writes it to a file.'
        )
        return f"<pre>{escaped(repr(trace))}\n{advice}</pre>"
    return framed(trace_page(trace), str(trace.document["title"]))


@html_of.register
def _(run: RunSummary) -> str:
    return framed(report_page([run]), run.name)


def framed(page: str, title: str) -> str:
    """A whole page in a frame, which has the width of a cell."""
    return (
        f'<iframe title="{escaped(title)}" sandbox="allow-scripts allow-forms" srcdoc="{html.escape(page)}" '
        'style="width:100%;height:760px;border:1px solid #8888"></iframe>'
    )


def _verdict(one: Row | Claim) -> str:
    kind = "right" if one.ok else "wrong" if one.fails else "unclear" if one.applies else "quiet"
    notes = f": {one.notes}" if one.notes else ""
    return f'<td><b class="{kind}">{escaped(one.verdict)}</b>{escaped(notes)}</td>'


def _shown(
    caption: str, head: Sequence[str], rows: Iterable[Sequence[str]], remarks: Iterable[str] = (), kind: str = ""
) -> str:
    below = "".join(f"<p>{escaped(text)}</p>" for text in remarks)
    return f'{_STYLE}<div class="npformer">{table(caption, head, rows, kind)}{below}</div>'
