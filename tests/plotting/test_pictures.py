"""Every picture: its file, what cannot be drawn, and where it may not be written."""

import struct
from collections import namedtuple

import numpy as np
import pytest

from npformer.errors import DataError, OutputError, ShapeError
from npformer.plotting import draw_attention, draw_curves, draw_profile, draw_sweep
from npformer.plotting.charts import Chart, Curve, draw_charts, draw_similarity
from npformer.plotting.curves import draw_comparison
from tests.plotting.test_charts import ROWS
from tests.plotting.test_sweep_picture import MIXED

HEAD = {"encoder.layers.0.self_attention": np.full((1, 3, 3), 1 / 3)}
CURVE = Curve("a", [1, 2], [2.0, 1.0])
METRICS = [
    {"step": 100, "kind": "train", "loss": 2.0, "learning_rate": 1e-3},
    {"step": 100, "kind": "eval", "loss": 1.0, "token_accuracy": 0.9, "exact_match": 0.6},
]


#: How it is drawn, what is drawn, its size in pixels; and what cannot be drawn, the error and its message.
Picture = namedtuple("Picture", "draw what size nothing error message")
PICTURES = {
    "attention": Picture(
        lambda weights, path: draw_attention(weights, ["a", "b", "c"], [], path, "reverse"), HEAD, (900, 508),
        {}, ShapeError, "expected at least one attention, got none",
    ),
    "charts": Picture(
        lambda curves, path: draw_charts([Chart("title", "x", "y", curves)], path, "t"), [CURVE], (714, 663),
        [], DataError, "expected at least one, each with a curve",
    ),
    "comparison": Picture(
        lambda losses, path: draw_comparison(*losses, path, "t"), ([1.0], [2.0]), (1305, 661),
        ([], [2.0]), DataError, "expected at least one step of each run",
    ),
    "curves": Picture(
        draw_curves, METRICS, (1305, 1192),
        [], DataError, "expected at least one line of training or evaluation, got none",
    ),
    "notes of a run": Picture(
        draw_curves, METRICS, (1305, 1192),
        [{"step": 1, "kind": "note"}], DataError, "expected at least one line of training or evaluation, got none",
    ),
    "profile": Picture(
        lambda rows, path: draw_profile(rows, path, "t"), ROWS, (1440, 435),
        [], DataError, "^rows: expected at least one part of a step that took time, got none",
    ),
    "similarity": Picture(
        lambda maps, path: draw_similarity(maps, [*"abcd"], path, "t"), [("a", np.eye(4))], (802, 801),
        [("a", np.eye(3))], ShapeError, r"a: expected similarities of the 4 words in groups, got \(3, 3\)",
    ),
    "sweep": Picture(
        draw_sweep, MIXED, (1650, 900), [], DataError, "^curves: expected at least one, got none; nothing to draw$",
    ),
}  # fmt: skip


@pytest.fixture(params=PICTURES.values(), ids=PICTURES)
def picture(request):
    return request.param


def test_the_file_is_a_png_of_its_size_and_the_same_if_it_is_drawn_again(picture, tmp_path):
    path = tmp_path / "a.png"
    picture.draw(picture.what, path)
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", data[16:24]) == picture.size
    picture.draw(picture.what, path)
    assert path.read_bytes() == data


def test_what_cannot_be_drawn_is_told_and_writes_nothing(picture, tmp_path):
    with pytest.raises(picture.error, match=picture.message):
        picture.draw(picture.nothing, tmp_path / "a.png")
    assert not list(tmp_path.iterdir())


def test_a_place_that_cannot_be_written_is_told_before_anything_is_drawn(picture, tmp_path):
    notes = tmp_path / "notes.png"
    notes.write_text("no picture")
    refused = {
        "a.txt": r"^picture: expected a file name ending in \.png",
        "nowhere/a.png": "expected an existing folder, .*create it first",
        "notes.png": "expected a free name",
    }
    for name, message in refused.items():
        with pytest.raises(OutputError, match=message):
            picture.draw(picture.nothing, tmp_path / name)
    assert [notes.read_text(), *tmp_path.iterdir()] == ["no picture", notes]
