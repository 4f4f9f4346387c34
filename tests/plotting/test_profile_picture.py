"""The picture of a profile: bars as long as times, ceilings inside them, every text within the picture."""

from matplotlib.colors import to_hex

from npformer.plotting import colours
from npformer.plotting.profile import profile_figure
from npformer.training.bench import Row
from tests.plotting.figures import expect_inside, texts


def row(op, direction, seconds, bound, by, share):
    return Row(op, direction, 1, seconds, 0.0, 0.0, bound, by, share)


ROWS = [
    row("linear", "backward", 0.004, 0.003, "products", 0.4),
    row("softmax", "forward", 0.003, 0.006, "memory", 0.3),
    row("linear", "forward", 0.002, 0.001, "products", 0.2),
    row("layers, in Python", "between", 0.001, 0.0, None, 0.1),
    row("relu", "backward", 1e-6, 0.0, "memory", 1e-4),
]


def test_bars_their_ceilings_and_their_order():
    (axes,) = profile_figure(ROWS, "t").axes
    bars = [(round(bar.get_width(), 9), to_hex(bar.get_facecolor()).upper()) for bar in axes.patches]
    solid = [bar for bar in bars if bar[1] in (colours.TRAINING, colours.HELD_OUT)]
    assert [width for width, _ in bars] == [2, 1, 4, 3, 3, 3, 1]  # milliseconds, each then its ceiling
    assert solid == [(1, colours.TRAINING), (3, colours.HELD_OUT), (3, colours.TRAINING)]  # never beyond the bar
    heights = [bar.get_y() for bar in axes.patches]
    assert heights == sorted(heights)
    assert axes.get_ylim()[0] > axes.get_ylim()[1] == 0  # downwards


def test_names_and_numbers():
    figure = profile_figure(ROWS, "A title", ["a note"])
    found = texts(figure.axes[0])
    assert [text for text in found if text in {row.op for row in ROWS}] == ["linear", "softmax", "layers, in Python"]
    assert "2.00 ms · 20.0 % · 50 % of its ceiling, products" in found
    assert "3.00 ms · 30.0 % · 200 % of its ceiling, memory" in found
    assert "1.00 ms · 10.0 %" in found
    assert {"forward", "backward"} <= set(found)
    assert "(1 below 0.1 % left out)" in figure.axes[0].get_xlabel()
    assert texts(figure) == ["A title", "a note"]


def test_nothing_sticks_out():
    dear = [row("sinusoidal_positions", "backward", 12.345, 12.345, "products", 0.999)]
    figure = profile_figure([*dear, *ROWS], "A training step's 12,345.6 ms", ["a long note " * 40])
    expect_inside(figure)
    assert figure.axes[0].xaxis.get_major_formatter()(10000) == "10,000"
