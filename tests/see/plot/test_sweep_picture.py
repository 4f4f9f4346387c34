"""The picture of the V: right curves and wrong ones told apart, names beside them, nothing lost."""

import numpy as np

from npformer.check.curves import Curve
from npformer.check.sweep import STEPS
from npformer.see.plot.sweep import sweep_drawing
from tests.see.plot.figures import expect_inside, paths, points, texts, tree

V = STEPS**2 + 1e-16 / STEPS


def curve(name, verdict="right", error=V):
    return Curve(name, STEPS, np.asarray(error), verdict)


MIXED = [
    curve("softmax · x"),
    curve("linear · weight", "WRONG", np.full(STEPS.shape, 0.5)),
    curve("relu · x", "KINK HERE"),
]


def lines(drawing, *kinds):
    """The curves, in the order in which they are drawn: the points of each."""
    return [points(d) for d in paths(drawing, "line", *kinds) if "h0" not in d]


def names(drawing):
    """The names in the margin, from the top."""
    return [text for text in texts(drawing) if " · " in text]


def test_curves_and_their_names():
    drawing = sweep_drawing(MIXED)
    assert (len(lines(drawing, "warn")), len(lines(drawing, "c0"))) == (2, 1)
    ((level,), _) = sorted(lines(drawing, "warn"), key=lambda parts: np.ptp([y for _, y in parts[0]]))
    assert len({y for _, y in level}) == 1, "0.5 at every step"
    assert names(drawing) == ["linear · weight", "relu · x", "softmax · x"]  # what is wrong first
    labels = [text for text in texts(drawing) if ", lowest error " in text]
    assert labels[0] == "WRONG, lowest error 5e-01"
    assert labels[1].startswith("KINK HERE, ")
    assert labels[2].startswith("right, ")
    assert {*labels[:2]} <= {*texts(drawing, "warn")}
    assert labels[2] in texts(drawing, "c0")
    assert "linear · weight: WRONG, lowest error 5e-01; relu" in drawing.told


def numbers(drawing):
    """The places of the circles on the curves."""
    circles = [each for each in tree(drawing).iter("circle") if "frame" in each.get("class")]
    return [(float(circle.get("cx")), float(circle.get("cy"))) for circle in circles]


def test_each_name_has_the_number_that_is_on_its_curve():
    drawing = sweep_drawing(MIXED)
    shown = [text for text in texts(drawing) if text in ("1", "2", "3")]
    assert shown == ["1", "2", "3"] * 2, "on the curves, then beside the names"
    first, _, third = numbers(drawing)
    (right,) = lines(drawing, "c0")[0]
    (level,) = lines(drawing, "warn")[-1]
    assert first[1] == level[0][1]
    assert third in right, "on its curve, near its lowest point, where no other number is"
    assert third[1] > 200


def test_the_outlier_among_right_curves_is_named_first():
    outlier = curve("the · outlier", error=3e-9 + V)
    drawing = sweep_drawing([*(curve(f"right · {i}", error=V * (1 + i)) for i in range(30)), outlier])
    assert names(drawing)[:3] == ["the · outlier", "right · 29", "right · 28"]
    assert len(lines(drawing)) - len(lines(drawing, "pale")) == len(names(drawing))
    assert lines(drawing)[-1] == lines(sweep_drawing([outlier]))[0], "on top of all others"


def test_numbers_of_equal_curves_do_not_cover_each_other():
    drawing = sweep_drawing([curve(f"equal · {i}", "WRONG", np.full(STEPS.shape, 0.5)) for i in range(8)])
    places = np.array(numbers(drawing))
    distances = np.hypot(*(places[:, None] - places[None]).transpose(2, 0, 1))
    assert distances[~np.eye(8, dtype=bool)].min() >= 15, "the width of a circle"


def test_the_axes():
    drawing = sweep_drawing(MIXED)
    (across,) = lines(drawing, "c0")[0]
    assert np.ptp(np.diff([x for x, _ in across])) < 0.3, "steps of equal ratios"
    assert across[0][0] < across[-1][0], "h shrinks to the right"
    assert {"step size h", "scaled error |D(h) − analytic|", "h²", "rounding/h"} <= set(texts(drawing))


def test_many_curves_are_counted_not_all_named():
    drawing = sweep_drawing([curve(f"right · {i}") for i in range(30)] + [curve("the · wrong", "WRONG")])
    assert names(drawing)[0] == "the · wrong"
    assert len(names(drawing)) == 10
    assert any(text.startswith("and 21 more, right, lowest errors up to ") for text in texts(drawing))
    assert len(lines(drawing)) == 31
    many = [curve(f"wrong · {i}", "WRONG") for i in range(12)]
    assert "and 2 more, 2 of them not right" in texts(sweep_drawing(many))


def test_curves_without_a_finite_error_are_named_too():
    drawing = sweep_drawing([curve("x · y", "CANNOT TELL", np.full(STEPS.shape, np.nan))])
    assert "CANNOT TELL, no finite error" in texts(drawing)


def test_an_error_of_exactly_zero_is_a_gap_and_nan_is_no_trouble():
    error = V.copy()
    error[[3, 5]] = 0, np.nan
    assert [len(part) for part in lines(sweep_drawing([curve("x", error=error)]))[0]] == [3, 1, STEPS.size - 6]


def test_nothing_sticks_out():
    long = "DecoderStack: post, relu · layers.0.memory_attention.output.weight"
    drawing = sweep_drawing([curve(long, "PROVES NOTHING") for _ in range(20)])
    expect_inside(drawing)
    assert any(text.startswith("DecoderStac…") and text.endswith("output.weight") for text in texts(drawing))
