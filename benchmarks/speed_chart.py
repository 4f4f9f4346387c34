"""The chart of training speed relative to PyTorch: two files, for light and for dark pages."""

import html

from benchmarks.page_tables import KERNELS, SIZES, not_measured, steps
from npformer.see.plot.svg import Axis, Drawing, Section, number, one_style, path, sheet, text

THEMES = {"light": one_style(0), "dark": one_style(1)}
BARS = tuple((name, rate) for name in ("npformer-numba", "npformer-numpy") for rate in (0.1, 0.0))
KINDS = ("bar c0", "bar rest c0", "bar c1", "bar rest c1")  # compiled with and without dropout, NumPy with and without
WIDTH, LEFT, RIGHT, TOP, BOTTOM = 600, 32, 60, 60, 310  # pixels


def latest(documents):
    """(the processor of the latest measurement, its rows that have a peer)."""
    by_processor = steps(documents)
    processors = [x["machine"]["processor"] for x in documents if x["benchmark"] == "train_step"]  # the oldest first
    processor = next((each for each in reversed(processors) if each in by_processor), "")
    return processor.removesuffix(" for this process"), {
        key: row for key, row in by_processor.get(processor, {}).items() if key[:2] in BARS and row["times_as_fast"]
    }


def description(documents):
    """The chart in words and numbers: the alternative text, and the text within the file."""
    processor, rows = latest(documents)
    parts = []
    for bar in BARS:
        known = [(size, rows[*bar, size]["times_as_fast"]["median"]) for size in SIZES if (*bar, size) in rows]
        parts += [f"{label(*bar)}: {', '.join(f'{size} {ratio:.1f}' for size, ratio in known)}"] if known else []
    return f"Training steps, times as fast as PyTorch, on {processor}. {'; '.join(parts)}."


def label(name, rate):
    """The name of a bar."""
    return f"{KERNELS[name]}, {f'dropout {rate:g}' if rate else 'no dropout'}"


def markdown(documents, folder):
    """The chart for a page, and a sentence; without a measurement, how to make one."""
    processor, rows = latest(documents)
    if not rows:
        return not_measured("python -m benchmarks.train_step --save benchmarks/results/train_step.json")
    alt = html.escape(description(documents))
    return (
        f'<picture>\n  <source media="(prefers-color-scheme: dark)" srcset="{folder}/speed-dark.svg">\n'
        f'  <img src="{folder}/speed-light.svg" alt="{alt}">\n</picture>\n\n{sentence(processor, rows)}\n'
    )


def sentence(processor, rows):
    """The range of the compiled kernels with dropout, or of the first bar that was measured."""
    bar = next(bar for bar in BARS if any(key[:2] == bar for key in rows))
    ratios = {size: rows[*bar, size]["times_as_fast"]["median"] for size in SIZES if (*bar, size) in rows}
    low, high, sizes = min(ratios.values()), max(ratios.values()), list(ratios)
    return (
        f"A training step ({label(*bar)}, sizes {sizes[0]} to {sizes[-1]}) runs {low:.1f} to {high:.1f} times as fast "
        f"as the same step in PyTorch, on {processor}."
    )


def write(documents, folder):
    """Both files."""
    drawing = drawn(documents)
    for name, style in THEMES.items():
        made = sheet("Times as fast as PyTorch", [], [Section("", "", [drawing])], style)
        (folder / f"speed-{name}.svg").write_text(made, encoding="utf-8")


def drawn(documents):
    """The bars of each size, and a line at PyTorch's speed."""
    rows = latest(documents)[1]
    sizes = [size for size in SIZES if any(key[2] == size for key in rows)]
    bars = [bar for bar in BARS if any(key[:2] == bar for key in rows)]
    x = Axis(-0.5, len(sizes) - 0.5, LEFT, WIDTH - RIGHT)
    y = Axis(0.0, max(1.0, *(row["times_as_fast"]["median"] for row in rows.values())), BOTTOM, TOP)
    wide = 0.84 * (x.at(1) - x.at(0)) / len(bars)
    parts = [
        path("frame", f"M{LEFT} {BOTTOM}H{WIDTH - RIGHT}"),
        path("mark", f"M{LEFT} {number(y.at(1))}H{WIDTH - RIGHT}"),
    ]
    parts.append(text(WIDTH - RIGHT + 6, y.at(1) + 3.5, "PyTorch", "ink"))
    parts += [text(LEFT - 5, y.at(tick) + 3.5, f"{tick:g}", anchor="end") for tick in y.ticks()]
    parts += [text(x.at(i), BOTTOM + 16, size, "ink", "middle") for i, size in enumerate(sizes)]
    for place, bar in enumerate(bars):
        kind, key = KINDS[BARS.index(bar)], (LEFT + 250 * (place % 2), 8 + 16 * (place // 2))
        parts.append(path(kind, f"M{key[0]} {key[1]}h12v10h-12z") + text(key[0] + 18, key[1] + 9, label(*bar), "ink"))
        for i, size in enumerate(sizes):
            if (*bar, size) in rows:
                value = rows[*bar, size]["times_as_fast"]["median"]
                left = x.at(i) + (place - len(bars) / 2) * wide
                top = number(y.at(value))
                parts.append(path(kind, f"M{number(left)} {BOTTOM}V{top}h{number(0.92 * wide)}V{BOTTOM}z"))
                parts.append(text(left + wide / 2, y.at(value) - 4, f"{value:.1f}", "ink", "middle"))
    return Drawing(WIDTH, BOTTOM + 24, "".join(parts), description(documents))
