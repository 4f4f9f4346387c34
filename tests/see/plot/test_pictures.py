"""Every picture: its file, its texts in a browser, what cannot be drawn, and where it may not be written."""

import re
from collections import namedtuple

import numpy as np
import pytest

from examples.experiments.similarity import draw_similarity
from npformer.errors import DataError, OutputError, ShapeError
from npformer.see.plot import draw_attention, draw_curves, draw_sweep
from npformer.see.plot.charts import Chart, Curve, draw_charts, draw_comparison
from tests.see.plot.figures import tree
from tests.see.plot.test_curves import MIXED

HEAD = {"encoder.layers.0.self_attention": np.full((1, 3, 3), 1 / 3)}
CURVE = Curve("a", [1, 2], [2.0, 1.0])
METRICS = [
    {"step": 100, "kind": "train", "loss": 2.0, "learning_rate": 1e-3},
    {"step": 100, "kind": "eval", "loss": 1.0, "token_accuracy": 0.9, "exact_match": 0.6},
]


#: How it is drawn, what is drawn; and what cannot be drawn, the error and its message.
Picture = namedtuple("Picture", "draw what nothing error message")
PICTURES = {
    "attention": Picture(
        lambda weights, path: draw_attention(weights, ["a", "b", "c"], [], path, "reverse"), HEAD,
        {}, ShapeError, "expected at least one attention, got none",
    ),
    "charts": Picture(
        lambda curves, path: draw_charts([Chart("title", "x", "y", curves)], path, "t"), [CURVE],
        [], DataError, "expected at least one, each with a curve",
    ),
    "comparison": Picture(
        lambda losses, path: draw_comparison(*losses, path, "t"), ([1.0], [2.0]),
        ([], [2.0]), DataError, "expected at least one step of each run",
    ),
    "curves": Picture(
        draw_curves, METRICS,
        [], DataError, "expected at least one line of training or evaluation, got none",
    ),
    "notes of a run": Picture(
        draw_curves, METRICS,
        [{"step": 1, "kind": "note"}], DataError, "expected at least one line of training or evaluation, got none",
    ),
    "similarity": Picture(
        lambda maps, path: draw_similarity(maps, [*"abcd"], path, "t"), [("a", np.eye(4))],
        [("a", np.eye(3))], ShapeError, r"a: expected similarities of the 4 words in groups, got \(3, 3\)",
    ),
    "sweep": Picture(
        draw_sweep, MIXED, [], DataError, "^curves: expected at least one, got none; nothing to draw$",
    ),
}  # fmt: skip


@pytest.fixture(params=PICTURES.values(), ids=PICTURES)
def picture(request):
    return request.param


@pytest.fixture
def drawn(picture, tmp_path):
    """The file of a picture."""
    picture.draw(picture.what, tmp_path / "a.svg")
    return tmp_path / "a.svg"


def test_the_file_is_svg_told_in_words_and_the_same_if_it_is_drawn_again(picture, drawn):
    data = drawn.read_bytes()
    root = tree(data.decode())
    assert root[0].tag == "title"
    assert all(each.get("aria-label") and each.get("role") == "img" for each in root.iter("svg") if each is not root)
    assert not re.search(r"<image|<script|style=|https?://(?!www.w3.org/2000/svg)", data.decode())
    picture.draw(picture.what, drawn)
    assert drawn.read_bytes() == data


OVERLAPS = """
const boxes = [...document.querySelectorAll("text")].map(t => [t.textContent, t.getBoundingClientRect()]);
const page = document.documentElement.getBoundingClientRect();
const out = boxes.filter(([, b]) => b.left < 0 || b.top < 0 || b.right > page.right || b.bottom > page.bottom);
const meet = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1.5
  && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3;
const over = boxes.flatMap(([s, a], i) => boxes.slice(i + 1).filter(([, b]) => meet(a, b)).map(([t]) => s + " | " + t));
return [out.map(([s]) => s), over];
"""


@pytest.mark.browser
def test_no_text_reaches_over_the_edge_or_over_another_in_light_and_in_dark(browser, drawn):
    browser.open(drawn)
    for dark in (False, True):
        browser.look(dark=dark)
        assert browser.run(OVERLAPS) == [[], []]
        paper = browser.run("return getComputedStyle(document.querySelector('rect.paper')).fill")
        assert paper == ("rgb(20, 23, 28)" if dark else "rgb(255, 255, 255)")


def test_what_cannot_be_drawn_is_told_and_writes_nothing(picture, tmp_path):
    with pytest.raises(picture.error, match=picture.message):
        picture.draw(picture.nothing, tmp_path / "a.svg")
    assert not list(tmp_path.iterdir())


def test_a_place_that_cannot_be_written_is_told_before_anything_is_drawn(picture, tmp_path):
    notes = tmp_path / "notes.svg"
    notes.write_text("no picture")
    refused = {
        "a.txt": r"^picture: expected a file name ending in \.svg",
        "nowhere/a.svg": "expected an existing folder, .*create it first",
        "notes.svg": "expected a free name",
    }
    for name, message in refused.items():
        with pytest.raises(OutputError, match=message):
            picture.draw(picture.nothing, tmp_path / name)
    assert [notes.read_text(), *tmp_path.iterdir()] == ["no picture", notes]
