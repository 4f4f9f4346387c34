"""The report of one run or of several, side by side: one HTML file without a script.

What was trained and how to repeat it, where, its curves, examples with right and wrong pieces, every head's attention,
the gradient's norm of every layer over time, and what was taken for what. All text is escaped.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from npformer._version import __version__
from npformer.io.output_files import OWN_PAGE, expect_place, write_file
from npformer.io.printable import escaped, visible
from npformer.run.config_file import in_shell
from npformer.run.options import Options
from npformer.run.predictions import Piece, Predicted, confusions
from npformer.run.progress import measures
from npformer.run.summary import RunSummary, flat, summarise
from npformer.run.trained import load_latest
from npformer.run.trainer import Trainer
from npformer.see.page.document import html_page, web_file
from npformer.see.plot import draw_attention, draw_curves
from npformer.see.plot.attention import AttentionMap, attention_key, attention_maps
from npformer.see.plot.charts import Chart, Curve, RunCourse, chart_drawing, course_charts, in_percent
from npformer.see.plot.svg import STYLE
from npformer.training.evaluation import Evaluation
from npformer.training.layer_norms import DEAD, NORM, SATURATED, UPDATE, fields_in

#: The page's name, unless another is given.
PAGE = "report.html"
#: The most classes of a matrix, and wrong pieces of a list.
CLASSES, WRONG = 16, 15
#: The shades of a table's cells in the style sheet: s0 to s9.
SHADES = 10
#: Examples shown of a run: the first ones, and more that are wrong; texts of a language model; pieces of the longest.
FIRST, MORE_WRONG, TEXTS, MOST_PIECES = 10, 10, 5, 400
#: The most layers of a model in one chart; of a deep one every second, or third.
MOST_LINES = 14
#: What evaluations log by part: the field, its chart, what parts make of their layer, and whether it is a share.
BY_LAYER: tuple[tuple[str, str, Callable[[float, float], float], bool], ...] = (
    (NORM, "Gradient norm of each layer, before clipping", math.hypot, False),
    (UPDATE, "Update over weights, each layer's largest", max, False),
    (SATURATED, "Saturated queries, each layer's largest", max, True),
    (DEAD, "Dead hidden units of each layer", max, True),
)
_LAYER = re.compile(r".*?\blayers\.\d+")
READING = (
    "How to read it: parts of one kind stand close together, rise while the loss falls fastest, and are small at its "
    "end. A layer near the input that lies far below the others hardly learns: its gradient vanishes. Parts that rise "
    "with the loss are about to explode: look at the learning rate and the warm-up. What counts for Adam is not the "
    "size but how it changes from step to step, since each number is divided by the size of its own gradients."
)
OF_SHARES = (
    "What Adam makes of it is the update: by which share of its length a part moved in that step. Of a saturated query "
    "one visible key of several has more than 99 % of the weight, so that its scores get hardly any gradient. A dead "
    "unit is 0, or below, at every token of the step's batch: what leads to it gets none."
)
NO_NORMS = "The run's metrics lack these norms: it was trained before they were kept, or has not evaluated yet."


def table(caption: str, head: Sequence[object], rows: Iterable[Sequence[str]], kind: str = "") -> str:
    """A table that scrolls by itself where it is too wide. head is text; the cells of rows are HTML, <th> or <td>."""
    top = "".join(f'<th scope="col">{escaped(name)}</th>' for name in head)
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return (
        f'<div class="wide" role="region" tabindex="0" aria-label="{escaped(caption)}"><table class="{kind}">'
        f"<caption>{escaped(caption)}</caption><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def th(text: object) -> str:
    """The head of a row."""
    return f'<th scope="row">{escaped(text)}</th>'


def td(text: object, kind: str = "") -> str:
    """A cell with a text."""
    return f'<td class="{kind}">{escaped(text)}</td>' if kind else f"<td>{escaped(text)}</td>"


def what_table(runs: Sequence[RunSummary]) -> str:
    """What each run trained and what it reached; a column for each run."""
    return _by_run("What was trained, and what it reached", runs, list(map(_what, runs)))


def _by_run(
    caption: str, runs: Sequence[RunSummary], columns: Sequence[Mapping[str, str]], head: str = "", kind: str = ""
) -> str:
    """A table with a column of texts for each run, by the name of their row."""
    names = dict.fromkeys(name for column in columns for name in column)
    cells = [[th(name), *(td(column.get(name, "–")) for column in columns)] for name in names]
    return table(caption, [head, *(run.name for run in runs)], cells, kind)


def _what(run: RunSummary) -> dict[str, str]:
    options, training = run.options, run.options.training
    kind = type(options.model).__name__.removesuffix("Config")
    facts = {
        "task": options.run.task,
        "data": options.data.file or "made by the task",
        "model": f"{kind}, {run.parameters:,} parameters",
        "steps": f"{run.step:,} of {training.steps:,}, each of {training.batch_size:,} sequences",
        "optimiser": f"{training.optimizer}, learning rate {training.learning_rate:g}, {training.schedule}",
        "seed": str(options.run.seed),
    }
    known = (float(line.get("tokens_per_second", math.nan)) for line in run.records)
    speeds = sorted(filter(math.isfinite, known))  # where the clock stood still it is NaN
    if speeds:
        facts["speed"] = f"{speeds[len(speeds) // 2]:,.0f} tokens per second (median)"
    if run.evaluation is not None:
        facts["held-out loss"] = f"{run.evaluation.loss:.4f} nats per token"
        facts["held-out"] = f"{', '.join(measures(run.evaluation.measures))} of {run.evaluation.count:,} sequences"
    return facts


def options_table(runs: Sequence[RunSummary], differing: bool) -> str:
    """The options of the runs; differing: those alone that are not the same in all."""
    columns = [{name: in_shell(value) for name, value in flat(run.options).items()} for run in runs]
    names = {name for column in columns for name in column}
    alike = {name for name in names if differing and len({column.get(name) for column in columns}) == 1}
    if alike == names:
        return '<p class="quiet">All options are the same.</p>'
    caption = "Options that differ" if differing else "All options"
    columns = [{name: column[name] for name in column if name not in alike} for column in columns]
    return _by_run(caption, runs, columns, "option", "options")


def confusion_table(run: RunSummary) -> str:
    """Classes against classes; for texts the pieces that are wrong most often."""
    counts = confusions(run.predictions)
    if run.kind in ("classify", "tag"):
        return _matrix(counts)
    wrong = [(pair, count) for pair, count in counts.most_common() if pair[0] != pair[1]][:WRONG]
    if not wrong:
        return '<p class="right">Nothing was wrong.</p>'
    total = sum(count for (one, other), count in counts.items() if one != other)
    rows = [
        [*(_piece(piece) for piece in pair), td(f"{count:,}", "number"), f"<td>{_bar(count / wrong[0][1])}</td>"]
        for pair, count in wrong
    ]
    caption = f"The most frequent mistakes; {total:,} of {sum(counts.values()):,} pieces are wrong{sample_of(run)}"
    return table(caption, ["expected", "written", "times", ""], rows, "wrong")


def sample_of(run: RunSummary) -> str:
    """Which sequences the predictions are of, if the evaluation's shares are of more."""
    few, many = len(run.predictions), 0 if run.evaluation is None else run.evaluation.count
    return f" in the first {few:,} sequences of {many:,}" if few < many else ""


def _piece(piece: str | None) -> str:
    return '<td class="quiet">nothing</td>' if piece is None else f"<td><code>{escaped(seen(piece))}</code></td>"


def seen(piece: str | None) -> str:
    """A piece whose spaces are seen."""
    return (piece or "").replace(" ", "␣")


def _bar(share: float) -> str:
    return (
        f'<svg class="bar" width="90" height="9" aria-hidden="true"><rect width="{90 * share:.1f}" height="9"/></svg>'
    )


def _matrix(counts: Mapping[tuple[str | None, str | None], int]) -> str:
    """Expected classes down, written ones across: the classes with most mistakes, if there are many."""
    wrong: Counter[str] = Counter()
    for pair, count in counts.items():
        for name in pair:
            wrong[str(name)] += count if pair[0] != pair[1] else 0
    chosen = sorted(sorted(wrong, key=lambda name: (-wrong[name], name))[:CLASSES])
    totals = {name: sum(count for (one, _), count in counts.items() if one == name) for name in chosen}

    def cell(row: str, column: str) -> str:
        count = counts.get((row, column), 0)
        share = count / totals[row] if totals[row] else 0.0
        shade = 0 if not count else max(1, math.ceil(share * (SHADES - 1)))
        return td(f"{count:,}" if count else "·", f"number s{shade}{' diagonal' * (row == column)}")

    rows = [[th(row), *(cell(row, column) for column in chosen), td(f"{totals[row]:,}", "number")] for row in chosen]
    left = f" of {len(wrong)}, those with most mistakes" if len(wrong) > len(chosen) else ""
    caption = f"Classes: expected, down, and written, across ({len(chosen)}{left})"
    return table(caption, ["", *chosen, "expected in all"], rows, "shaded matrix")


def report_page(runs: Sequence[RunSummary]) -> str:
    """The page of these runs, at least one, as a text."""
    title = "Report: " + ", ".join(run.name for run in runs)
    environments = [run.environment for run in runs]
    sections = [
        ("what", "What was trained", what_table(runs)),
        ("repeat", "How to repeat it", "".join(map(_repeat, runs))),
        ("differences", "How the runs differ", options_table(runs, differing=True) if len(runs) > 1 else ""),
        ("curves", "Curves", _curves(runs)),
        ("examples", "Held-out examples", _each(runs, _examples)),
        ("mistakes", "Mistakes", _each(runs, lambda run: confusion_table(run) if run.predictions else _missing(run))),
        ("attention", "Attention", _each(runs, _attention)),
        ("gradients", "Every layer", _each(runs, _norms)),
        ("environment", "Environment", _by_run("What the last checkpoint was made with", runs, environments)),
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
    courses = [
        RunCourse(run.name, _numbers(run.records), run.warmup, run.options.training.clip_norm, run.rates())
        for run in runs
    ]
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
    continued = run.kind == "causal"
    first, others = (TEXTS, 0) if continued else (FIRST, MORE_WRONG)
    shown = [
        *run.predictions[:first],
        *[one for one in run.predictions[first:] if not one.is_right][:others],
    ]
    rows = "".join(map(_continued if continued else _example, shown))
    key = "<del>left out</del> <ins>added</ins>"
    if continued or run.kind == "masked":
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
    """Charts over the layers."""
    lines = [line for line in run.records if line.get("kind") == "gradient"]
    if not lines:
        return f'<p class="note">{NO_NORMS}</p>'
    figures = []
    for field, title, joined, is_share in BY_LAYER:
        layers: dict[str, dict[float, float]] = {}
        for line in lines:
            for part, value in fields_in(line, field).items():
                match = _LAYER.match(part)  # encoder.layers.0 of encoder.layers.0.norm1; any other part is its own
                points = layers.setdefault(match.group() if match else part, {})
                points[line["step"]] = joined(points.get(line["step"], 0.0), value)
        drawn = [
            Curve(layer, list(points), list(points.values()), i >= len(layers) / 2, dots=True, logged=True)
            for i, (layer, points) in enumerate(layers.items())
        ]
        chart = Chart(title, "", "", drawn[:: -(-len(drawn) // MOST_LINES) or 1], log_y=not is_share)
        if drawn:
            figures.append(_figure(chart._replace(write=in_percent, top=1.0) if is_share else chart))
    reading = f'<p class="quiet">{escaped(f"{READING} {OF_SHARES}")}</p>'
    return f'<div class="charts">{"".join(figures)}</div>{reading}'


def write_report(runs: Sequence[RunSummary], place: Path, option: str) -> int:
    """Write the page of these runs, in the place of an older one of npformer's. Returns its bytes.

    Raises OutputError if it cannot be written; an older file is then as it was.
    """
    expect_place(place, option, OWN_PAGE)
    page = report_page(runs).encode()
    write_file(place, option, page)
    return len(page)


def write_ending(trainer: Trainer, options: Options, found: Evaluation) -> tuple[list[str], str | None]:
    """Draw curves.svg and attention.svg, and write report.html, into the folder of a run that is trained.

    Returns the paths of the pictures and of the report, None if it was not written. What cannot be written is told: it
    fails no run.
    """
    run, task = trainer.run, trainer.task
    paths: list[str] = []

    def lacks(what: str, error: Exception) -> None:  # whatever it is, the run is trained and saved
        why = error or type(error).__name__
        trainer.progress.say(f"npformer: warning: no {what} was written: {why}. The run is complete without it")

    def write(name: str, make: Callable[[Path], Any]) -> None:
        try:
            make(run.path / name)
            paths.append(str(run.path / name))
        except Exception as error:
            lacks(name.removesuffix(".html"), error)

    try:
        summary = summarise(run, options, trainer.step.model, load_latest(run), task, found)
    except Exception as error:
        lacks("report", error)
        return [], None
    data = "" if task.name.partition("-")[0] == options.run.task else f" of {task.name}"
    title = visible(f"{options.run.task}{data} · run {summary.name}")
    clip_norm, shown = options.training.clip_norm, summary.attention
    write("curves.svg", lambda path: draw_curves(summary.records, path, title, summary.warmup, clip_norm))
    if shown is not None:
        drawn = shown.weights, shown.source, shown.target
        write("attention.svg", lambda path: draw_attention(*drawn, path, f"{title}: {shown.title}"))
    write(PAGE, lambda path: write_report([summary], path, "report"))
    report = next((path for path in paths if path.endswith(PAGE)), None)
    return [path for path in paths if path != report], report
