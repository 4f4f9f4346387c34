"""The report of one run or of several, side by side: one HTML file without a script.

What was trained and how to repeat it, where, its curves, examples with right and wrong pieces, every head's attention,
the gradient's norm of every layer over time, and what was taken for what. All text is escaped.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from npformer._version import __version__
from npformer.run.predictions import Piece, Predicted
from npformer.run.summary import RunSummary
from npformer.see.explain.sizes import READING
from npformer.see.page.document import html_page, web_file
from npformer.see.page.report_tables import (
    confusion_table,
    environment_table,
    norms_of,
    norms_table,
    options_table,
    sample_of,
    seen,
    what_table,
)
from npformer.see.plot.attention import AttentionMap, attention_key, attention_maps
from npformer.see.plot.charts import Chart, Curve, chart_drawing
from npformer.see.plot.colours import STYLE
from npformer.see.plot.curves import Course, course_charts
from npformer.see.plot.svg import escaped

#: Examples shown of a run: the first ones, and more that are wrong; texts of a language model; pieces of the longest.
FIRST, MORE_WRONG, TEXTS, MOST_PIECES = 10, 10, 5, 400
#: The most parts of a model in one chart of norms.
MOST_LINES = 14
_LAYER = re.compile(r".*?\blayers\.\d+")
NO_NORMS = "The run's metrics lack these norms: it was trained before they were kept, or has not evaluated yet."


def report_page(runs: Sequence[RunSummary]) -> str:
    """The page of these runs, at least one, as a text."""
    title = "Report: " + ", ".join(run.name for run in runs)
    sections = [
        ("what", "What was trained", what_table(runs)),
        ("repeat", "How to repeat it", "".join(map(_repeat, runs))),
        ("differences", "How the runs differ", options_table(runs, differing=True) if len(runs) > 1 else ""),
        ("curves", "Curves", _curves(runs)),
        ("examples", "Held-out examples", _each(runs, _examples)),
        ("mistakes", "Mistakes", _each(runs, lambda run: confusion_table(run) if run.predictions else _missing(run))),
        ("attention", "Attention", _each(runs, _attention)),
        ("gradients", "Gradients of every layer", _each(runs, _norms)),
        ("environment", "Environment", environment_table(runs)),
        ("options", "Options", f"<details><summary>All options</summary>{options_table(runs, False)}</details>"),
    ]
    sections = [section for section in sections if section[2]]
    links = "".join(f'<li><a href="#{name}">{heading}</a></li>' for name, heading, _ in sections)
    body = "\n".join(
        f'<section id="{name}" aria-labelledby="{name}-h"><h2 id="{name}-h">{heading}</h2>{inside}</section>'
        for name, heading, inside in sections
    )
    return html_page(
        title,
        style=STYLE + web_file("report.css"),
        body=f'<header><h1>{escaped(title)}</h1><nav aria-label="Sections"><ul>{links}</ul></nav></header>'
        f"<main>{body}</main><footer>Written by npformer {__version__}. This page asks for nothing from elsewhere and "
        "runs no script.</footer>",
    )


def _each(runs: Sequence[RunSummary], inside: Callable[[RunSummary], str]) -> str:
    """A part for each run, under its name if there are several."""
    if len(runs) == 1:
        return inside(runs[0])
    parts = "".join(f"<article><h3>{escaped(run.name)}</h3>{inside(run)}</article>" for run in runs)
    return f'<div class="runs">{parts}</div>'


def _repeat(run: RunSummary) -> str:
    return (
        f"<p>Train from the start with the options that {escaped(run.name)} ended with:</p>"
        f"<pre><code>{escaped(run.repeat)}</code></pre>"
    )


def _missing(run: RunSummary) -> str:
    return f'<p class="note">{escaped(run.note)}</p>'


def _curves(runs: Sequence[RunSummary]) -> str:
    """Charts of all runs together."""
    courses = []
    for run in runs:
        training = run.options.training
        warmup = 0 if training.schedule == "constant" else training.warmup_steps
        courses.append(Course(run.name, _numbers(run.records), warmup, training.clip_norm, run.rates()))
    return f'<div class="charts">{"".join(map(_figure, course_charts(courses)))}</div>{"".join(map(_samples, runs))}'


def _samples(run: RunSummary) -> str:
    """On how many sequences the curves' held-out values were measured."""
    counts = {int(line["step"]): int(line["examples"]) for line in _numbers(run.records) if "examples" in line}
    if not counts:
        return ""
    *earlier, last = counts.values()
    few, many = min(earlier, default=last), max(earlier, default=last)
    said = f"{few:,}" if few == many else f"{few:,} to {many:,}"
    said += f" sequences; the last, at step {max(counts):,}, on {last:,}." if last != many else " sequences."
    return f'<p class="quiet">{escaped(run.name)}: each held-out value was measured on {said}</p>'


def _figure(chart: Chart) -> str:
    return f'<figure class="chart">{chart_drawing(chart).svg()}</figure>'


def _numbers(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The lines of a step, without what is no number."""
    return [
        {field: value for field, value in line.items() if field == "kind" or _is_number(value)}
        for line in records
        if _is_number(line.get("step")) and math.isfinite(line["step"])
    ]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _examples(run: RunSummary) -> str:
    """The first examples and more that are wrong, with their pieces marked."""
    if not run.predictions:
        return _missing(run)
    continued = run.evaluation is not None and run.evaluation.kind == "causal"
    first, others = (TEXTS, 0) if continued else (FIRST, MORE_WRONG)
    shown = [
        *run.predictions[:first],
        *[one for one in run.predictions[first:] if not one.is_right][:others],
    ]
    rows = "".join(map(_continued if continued else _example, shown))
    key = "<del>left out</del> <ins>added</ins>"
    if continued or (run.evaluation is not None and run.evaluation.kind == "masked"):
        asked = [piece for one in run.predictions for piece in one.pieces if piece.asked]
        key = "the text, token by token, is what was to be written" if continued else "grey: given"
        right = sum(piece.is_right for piece in asked)
        summary = f"{right:,} of {len(asked):,} tokens are right{sample_of(run)}"
    else:
        right = sum(one.is_right for one in run.predictions)
        summary = f"{right:,} of {len(run.predictions):,} are right"
    more = f", and {len(shown) - first} more that are wrong" if len(shown) > first else ""
    return (
        f"<p>{summary}. Shown: the first {min(first, len(run.predictions))}{more}.</p>"
        f'<p class="key"><span class="piece bad">wrong</span> {key}</p><ol class="examples">{rows}</ol>'
    )


def _example(one: Predicted) -> str:
    """One example: what the model read, what it wrote, and below a wrong one what was expected."""
    mark, word = ("✓", "right") if one.is_right else ("✗", "wrong")
    written = one.glue.join(map(_marked, one.pieces[:MOST_PIECES]))
    expected = one.glue.join(piece.expected for piece in one.pieces if piece.expected is not None)
    wanted = "" if one.is_right else f' <span class="quiet">expected {escaped(expected)}</span>'
    return (
        f'<li class="{word}"><b role="img" aria-label="{word}">{mark}</b><span class="source">{escaped(one.source)}'
        f'</span> <span aria-hidden="true">→</span> <span class="written">{written}</span>{wanted}</li>'
    )


def _continued(one: Predicted) -> str:
    """A text that was to be continued at each token: the text itself, marked where another token was likelier."""
    parts = (
        escaped(piece.expected)
        if piece.is_right
        else f'<span class="piece bad" title="likelier: {escaped(seen(piece.got))}">{escaped(piece.expected)}</span>'
        for piece in one.pieces[:MOST_PIECES]
    )
    return f'<li class="text"><span class="written">{one.glue.join(parts)}</span></li>'


def _marked(piece: Piece) -> str:
    """What was written, marked where it is not what was expected. A wrong space is one that is seen."""
    answer, expected = seen(piece.got), seen(piece.expected)
    if not piece.asked:
        return f'<span class="quiet">{escaped(piece.expected)}</span>'
    if piece.got is None:
        return f"<del>{escaped(expected)}</del>"
    if piece.expected is None:
        return f"<ins>{escaped(answer)}</ins>"
    if piece.is_right:
        return escaped(piece.got)
    return f'<span class="piece bad" title="expected {escaped(expected)}">{escaped(answer)}</span>'


def _attention(run: RunSummary) -> str:
    if run.attention is None:
        return _missing(run) if run.note else '<p class="note">This kind of attention has no weights to show.</p>'
    shown = run.attention
    maps = attention_maps(shown.weights, shown.source, shown.target)
    figures = "".join(map(_heads, maps))
    return f"<p>The example <code>{escaped(shown.title)}</code>. {attention_key(maps).svg()}</p>{figures}"


def _heads(row: AttentionMap) -> str:
    """One attention, with a map for each of its heads."""
    maps = "".join(each.svg('class="drawn map"') for each in row.drawings())
    return (
        f'<figure class="attention"><figcaption><b>{escaped(row.title)}</b> <span class="quiet">{row.reading}</span>'
        f'</figcaption><div class="heads">{maps}</div></figure>'
    )


def _norms(run: RunSummary) -> str:
    """A chart over the layers, and a table over their parts."""
    lines = norms_of(run)
    if not lines:
        return f'<p class="note">{NO_NORMS}</p>'
    layers: dict[str, dict[float, float]] = {}
    for step, norms in lines:
        for part, norm in norms.items():
            points = layers.setdefault(layer_of(part), {})
            points[step] = math.hypot(points.get(step, 0.0), norm)
    drawn = [
        Curve(layer, list(points), list(points.values()), i >= len(layers) / 2, dots=True, logged=True)
        for i, (layer, points) in enumerate(layers.items())
    ]
    chart = Chart("Gradient norm of each layer, before clipping", "", "", drawn, log_y=True)
    reading = f'<p class="quiet">{escaped(READING)} <code>npformer explain sizes</code> shows each.</p>'
    return (_figure(chart) if len(drawn) <= MOST_LINES else "") + reading + norms_table(run)


def layer_of(part: str) -> str:
    """The layer of a part: encoder.layers.0 of encoder.layers.0.norm1; any other part is its own."""
    match = _LAYER.match(part)
    return match.group() if match else part
