"""Attention maps: one map per head, one row of maps per attention.

Each row has its own token labels, so that it can be cut out and shown alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from npformer.errors import ShapeError
from npformer.plotting import colours
from npformer.plotting.attention_layout import (
    KEY,
    MARGIN,
    ROW_HEADER,
    TITLE,
    AttentionMap,
    Layout,
    attention_map,
    plan,
    turned,
)
from npformer.plotting.canvas import (
    Style,
    add_axes,
    as_map,
    check_place,
    colour_bar,
    drawing,
    new_figure,
    write_picture,
)
from npformer.plotting.labels import is_special, one_line, token_label

PAD = 2.0  # points between a map and the names of its tokens


def draw_attention(
    weights: dict[str, npt.NDArray[np.generic]],
    source: list[str],
    target: list[str],
    path: Path,
    title: str = "",
) -> None:
    """Write a PNG with every head of every attention, for one example.

    weights maps the name of each attention ("decoder.layers.1.cross_attention") to its weights (H, T, S);
    source and target are the tokens of the two sides. Rows are queries, columns keys; weights of exactly
    zero (hidden keys) have a separate colour. An existing picture at path is replaced.
    Raises ShapeError or DTypeError for weights that do not fit, OutputError if path cannot be written.
    """
    check_place(path)
    write_picture(attention_figure(weights, source, target, title), path)


@drawing()
def attention_figure(
    weights: dict[str, npt.NDArray[np.generic]], source: list[str], target: list[str], title: str = ""
) -> Figure:
    """The picture of draw_attention as a Figure: one Axes per head, and one for the colour bar (first)."""
    if not weights:
        raise ShapeError("weights: expected at least one attention, got none; pass model.attention_weights")
    maps = [attention_map(name, value, source, target) for name, value in weights.items()]
    layout = plan(maps, title)
    figure = new_figure(layout.width, layout.height, layout.dpi)
    top = layout.height - MARGIN
    top = _draw_header(figure, layout, top, title, maps)
    for row, below in zip(maps, layout.below, strict=True):
        _draw_row(figure, layout, row, top)
        top -= ROW_HEADER + len(row.queries) * layout.cell + below
    return figure


def _write(figure: Figure, layout: Layout, x: float, y: float, text: str, **style: Any) -> Text:
    """Write text at x, y inches from the lower left corner, without interpreting $ and _."""
    return figure.text(x / layout.width, y / layout.height, text, parse_math=False, **style)


def _draw_header(figure: Figure, layout: Layout, top: float, title: str, maps: list[AttentionMap]) -> float:
    """Draw the title, the colour bar and its keys; returns the top of the rows."""
    left = layout.left
    if title:
        room = (layout.width - left - MARGIN) * 72
        shown = one_line(title, int(room / (13 * 0.7)))
        _write(figure, layout, left, top, shown, va="top", fontsize=13, weight="bold", color=colours.INK)
        top -= TITLE
    colour_bar(figure, left, top - 0.14, "0")
    style: Style = {"va": "center", "fontsize": 8, "color": colours.INK}
    _write(figure, layout, left + 1.62, top - 0.08, "attention weight", **style)
    keys = [(colours.HIDDEN, "exactly 0 (hidden)", any((row.weights == 0).any() for row in maps))]
    keys += [(colours.WARNING, "not a number", not all(np.isfinite(row.weights).all() for row in maps))]
    x = left + 2.85
    for colour, meaning, present in keys:
        if present:
            _draw_key(figure, layout, x, top - 0.08, colour)
            _write(figure, layout, x + 0.2, top - 0.08, meaning, **style)
            x += 1.45
    return top - KEY


def _draw_key(figure: Figure, layout: Layout, x: float, y: float, colour: str) -> None:
    w, h = layout.width, layout.height
    corner = (x / w, (y - 0.06) / h)
    figure.add_artist(Rectangle(corner, 0.13 / w, 0.12 / h, fc=colour, ec=colours.RULE, lw=0.6))


def _draw_row(figure: Figure, layout: Layout, row: AttentionMap, top: float) -> None:
    """Draw one attention: its title at the top, below it a map for each head."""
    heads, rows, columns = row.weights.shape
    bold: Style = {"va": "top", "fontsize": 10.5, "weight": "bold", "color": colours.INK}
    _write(figure, layout, layout.left, top, row.title, **bold)
    faint: Style = {"va": "top", "ha": "right", "fontsize": 8.5, "color": colours.FAINT_INK}
    _write(figure, layout, layout.width - MARGIN, top - 0.02, row.reading, **faint)
    height = rows * layout.cell
    for head in range(heads):
        x = layout.left + head * layout.pitch
        axes = add_axes(figure, x, top - ROW_HEADER - height, columns * layout.cell, height)
        _draw_head(axes, row.weights[head])
        axes.set_title(f"head {head + 1}", fontsize=8.5, weight="normal", color=colours.FAINT_INK, pad=3)
        _name_keys(axes, layout, row.keys)
        _name_queries(axes, layout, row.queries if head == 0 else [])


def _draw_head(axes: Axes, weights: npt.NDArray[np.float64]) -> None:
    """The map of one head, weights (T, S)."""
    image = colours.weight_ramp()(np.clip(np.nan_to_num(weights), 0.0, 1.0))[..., :3]  # (T, S, RGB)
    image[weights == 0] = to_rgb(colours.HIDDEN)
    image[~np.isfinite(weights)] = to_rgb(colours.WARNING)
    axes.imshow(image, interpolation="nearest", aspect="auto")
    rows, columns = weights.shape
    if max(rows, columns) <= 42:  # with more tokens the lines would cover the cells
        axes.hlines(np.arange(rows - 1) + 0.5, -0.5, columns - 0.5, color="white", linewidth=0.5)
        axes.vlines(np.arange(columns - 1) + 0.5, -0.5, rows - 0.5, color="white", linewidth=0.5)
    axes.set(xlim=(-0.5, columns - 0.5), ylim=(rows - 0.5, -0.5), xticks=[], yticks=[])
    as_map(axes)


def _name_keys(axes: Axes, layout: Layout, tokens: list[str]) -> None:
    """Draw the keys' names below the map, as texts, since ticks take matplotlib much longer."""
    place, va, ha = axes.get_xaxis_text1_transform(PAD)
    named = _named(layout, tokens)
    upwards = turned([token_label(token) for _, token in named], layout.letter, layout.cell * layout.name_every)
    for (at, token), is_turned in zip(named, upwards, strict=True):
        _name(axes, layout, at, 0.0, token, transform=place, va=va, ha=ha, rotation=90.0 if is_turned else 0.0)


def _name_queries(axes: Axes, layout: Layout, tokens: list[str]) -> None:
    """Draw the queries' names to the left of the map."""
    place, va, ha = axes.get_yaxis_text1_transform(PAD)
    for at, token in _named(layout, tokens):
        _name(axes, layout, 0.0, at, token, transform=place, va=va, ha=ha)


def _named(layout: Layout, tokens: list[str]) -> list[tuple[int, str]]:
    """The labelled tokens, each with its index."""
    return [(at, tokens[at]) for at in range(0, len(tokens), layout.name_every)]


def _name(axes: Axes, layout: Layout, x: float, y: float, token: str, **style: Any) -> None:
    ink = colours.FAINT_INK if is_special(token) else colours.INK
    axes.text(x, y, token_label(token), parse_math=False, fontsize=layout.letter, color=ink, **style)
