"""The tables of a report: what was trained, on what, how the runs differ, and what was taken for what."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from npformer.run.config_file import in_shell
from npformer.run.predictions import confusions
from npformer.run.progress import measures
from npformer.run.summary import RunSummary, flat
from npformer.see.plot.charts import short
from npformer.see.plot.svg import escaped
from npformer.training.layer_norms import norms_in

#: The most classes of a matrix, wrong pieces of a list, and evaluations of a table.
CLASSES, WRONG, COLUMNS = 16, 15, 8
#: The shades of a table's cells in the style sheet: s0 to s9.
SHADES = 10


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
    return _by_run("What was trained, and what it reached", runs, _rows(list(map(_what, runs))))


def _rows(columns: Sequence[Mapping[str, str]]) -> list[list[str]]:
    """[name, the text in each column], for every name."""
    names = dict.fromkeys(name for column in columns for name in column)
    return [[name, *(column.get(name, "–") for column in columns)] for name in names]


def _by_run(caption: str, runs: Sequence[RunSummary], rows: list[list[str]], head: str = "", kind: str = "") -> str:
    """A table with a column for each run."""
    cells = [[th(name), *map(td, values)] for name, *values in rows]
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


def environment_table(runs: Sequence[RunSummary]) -> str:
    """The versions and the processor, as each run's checkpoint tells."""
    return _by_run("What the last checkpoint was made with", runs, _rows([run.environment for run in runs]))


def options_table(runs: Sequence[RunSummary], differing: bool) -> str:
    """The options of the runs; differing: those alone that are not the same in all."""
    every = _rows([{name: in_shell(value) for name, value in flat(run.options).items()} for run in runs])
    rows = [row for row in every if not differing or len(set(row[1:])) > 1]
    if not rows:
        return '<p class="quiet">All options are the same.</p>'
    caption = "Options that differ" if differing else "All options"
    return _by_run(caption, runs, rows, "option", "options")


def norms_of(run: RunSummary) -> list[tuple[int, dict[str, float]]]:
    """(step, the norm of each part's gradient) at each evaluation."""
    return [(line["step"], norms_in(line)) for line in run.records if line.get("kind") == "gradient"]


def norms_table(run: RunSummary) -> str:
    """The norm of each part's gradient at some of the evaluations, dark where it is large."""
    lines = norms_of(run)
    if len(lines) > COLUMNS:
        lines = [lines[round(i * (len(lines) - 1) / (COLUMNS - 1))] for i in range(COLUMNS)]
    numbers = [value for _, norms in lines for value in norms.values() if math.isfinite(value) and value > 0]
    low, high = (math.log(min(numbers)), math.log(max(numbers))) if numbers else (0.0, 0.0)

    def cell(value: float | None) -> str:
        if value is None:
            return td("–")
        known = math.isfinite(value) and value > 0 and high > low
        shade = int((math.log(value) - low) / (high - low) * (SHADES - 1)) if known else 0
        return td(short(value), f"number s{shade}")

    parts, steps = dict.fromkeys(part for _, norms in lines for part in norms), [f"{step:,}" for step, _ in lines]
    rows = [[th(part), *(cell(norms.get(part)) for _, norms in lines)] for part in parts]
    return table("Gradient norm of each part, before clipping, by step", ["part", *steps], rows, "shaded")


def confusion_table(run: RunSummary) -> str:
    """Classes against classes; for texts the pieces that are wrong most often."""
    counts = confusions(run.predictions)
    if run.evaluation is not None and run.evaluation.kind in ("classify", "tag"):
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
