"""The chart of training speed relative to PyTorch: two files, for light and for dark pages."""

import html
from typing import NamedTuple

import matplotlib
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from benchmarks.page_tables import KERNELS, SIZES, steps


class Theme(NamedTuple):
    """The colours of one file."""

    ink: str
    faint: str
    paper: str
    bars: tuple[str, str, str, str]  # compiled with and without dropout, NumPy with and without


THEMES = {
    "light": Theme("#1f2328", "#57606a", "#ffffff", ("#0072b2", "#8cc3e6", "#b34700", "#f0b48a")),
    "dark": Theme("#e6edf3", "#9198a1", "#0d1117", ("#58a6e8", "#2c5f8a", "#f0883e", "#8a5228")),
}
BARS = tuple((name, rate) for name in ("npformer-numba", "npformer-numpy") for rate in (0.1, 0.0))
WIDTH, HEIGHT = 6.6, 3.6  # inches


def latest(documents):
    """The processor of the latest measurement, and the rows that have a peer."""
    found = steps(documents)
    if not found:
        return "", {}
    last = max(
        (x for x in documents if x["benchmark"] == "train_step" and x["machine"]["processor"] in found),
        key=lambda document: document["machine"]["date"],
    )
    processor = last["machine"]["processor"]
    return processor.removesuffix(" for this process"), {
        key: row for key, row in found[processor].items() if key[:2] in BARS and row["times_as_fast"]
    }


def description(documents):
    """The chart in words and numbers: the alternative text, and the text within the file."""
    processor, rows = latest(documents)
    parts = []
    for name, rate in BARS:
        values = [
            f"{size} {rows[name, rate, size]['times_as_fast']['median']:.1f}"
            for size in SIZES
            if (name, rate, size) in rows
        ]
        parts += [f"{label(name, rate)}: {', '.join(values)}"] if values else []
    return f"Training steps, times as fast as PyTorch, on {processor}. {'; '.join(parts)}." if parts else ""


def label(name, rate):
    """The name of a bar."""
    return f"{KERNELS[name]}, {f'dropout {rate:g}' if rate else 'no dropout'}"


def markdown(documents, folder):
    """The chart for a page, and a sentence; without a measurement, how to make one."""
    processor, rows = latest(documents)
    if not rows:
        command = "python -m benchmarks.train_step --save benchmarks/results/train_step.json"
        return f"No speed is committed yet. This command measures it beside PyTorch: `{command}`.\n"
    alt = html.escape(description(documents))
    return (
        f'<picture>\n  <source media="(prefers-color-scheme: dark)" srcset="{folder}/speed-dark.svg">\n'
        f'  <img src="{folder}/speed-light.svg" alt="{alt}">\n</picture>\n\n{sentence(processor, rows)}\n'
    )


def sentence(processor, rows):
    """The range of the compiled kernels with dropout, or of the first measured row."""
    name, rate = next(each for each in BARS if any(key[:2] == each for key in rows))
    ratios = [row["times_as_fast"]["median"] for key, row in rows.items() if key[:2] == (name, rate)]
    sizes = [size for size in SIZES if (name, rate, size) in rows]
    where = f"{sizes[0]} to {sizes[-1]}" if len(sizes) > 1 else sizes[0]
    span = f"{min(ratios):.1f} to {max(ratios):.1f}" if len(ratios) > 1 else f"{ratios[0]:.1f}"
    return (
        f"A training step ({label(name, rate)}, sizes {where}) runs {span} times as fast as the same step in PyTorch, "
        f"on {processor}."
    )


def write(documents, folder):
    """Both files, if there is anything to show."""
    if not latest(documents)[1]:
        return []
    folder.mkdir(exist_ok=True)
    return [_write(documents, theme, folder / f"speed-{name}.svg") for name, theme in THEMES.items()]


def _write(documents, theme, path):
    settings = {
        "svg.fonttype": "none", "svg.hashsalt": "npformer", "font.size": 11, "text.color": theme.ink,
        "axes.edgecolor": theme.faint, "axes.labelcolor": theme.ink, "xtick.color": theme.ink,
        "ytick.color": theme.faint, "figure.facecolor": theme.paper, "axes.facecolor": theme.paper,
        "savefig.facecolor": theme.paper,
    }  # fmt: skip
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
        FigureCanvasSVG(figure)
        _draw(figure.add_subplot(), documents, theme)
        figure.savefig(path, metadata={"Date": None, "Creator": None, "Title": description(documents)})
    return path


def _draw(axes, documents, theme):
    rows = latest(documents)[1]
    sizes = [size for size in SIZES if any(key[2] == size for key in rows)]
    bars = [bar for bar in BARS if any(key[:2] == bar for key in rows)]
    width = 0.84 / len(bars)
    behind = {"facecolor": theme.paper, "edgecolor": "none", "pad": 0.6}
    for number, (name, rate) in enumerate(bars):
        shift = (number - (len(bars) - 1) / 2) * width
        shown = {i + shift: rows.get((name, rate, size)) for i, size in enumerate(sizes)}
        places = [place for place, row in shown.items() if row]
        medians = [row["times_as_fast"]["median"] for row in shown.values() if row]
        axes.bar(places, medians, 0.92 * width, color=theme.bars[BARS.index((name, rate))], label=label(name, rate))
        for place, median in zip(places, medians, strict=True):
            axes.text(place, median + 0.05, f"{median:.1f}", ha="center", fontsize=10, bbox=behind)
    axes.axhline(1, color=theme.faint, linewidth=1, linestyle=(0, (4, 3)), zorder=0)
    axes.text(1.01, 1, "PyTorch", ha="left", va="center", transform=axes.get_yaxis_transform())
    axes.set_xticks(range(len(sizes)), sizes)
    axes.set_ylabel("times as fast as PyTorch")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=10.5, ncols=2, loc="lower left", bbox_to_anchor=(0, 1))
