"""The picture of a run, or of two, shows what was logged, and says what it cannot show.

What metrics.jsonl says becomes points, gaps or a clear error.
"""

import numpy as np
import pytest

from npformer.check.curves import ErrorCurve as Sweep
from npformer.check.sweep import STEPS
from npformer.errors import DataError
from npformer.see.plot import draw_curves, draw_sweep
from npformer.see.plot.charts import (
    RunCourse,
    chart_drawing,
    comparison_chart,
    course_charts,
    of_values,
    running_mean,
    series,
)
from tests.see.plot.figures import paths, points, texts

NAN, INF = float("nan"), float("inf")


def train(step, loss, rate=1e-3):
    return {"step": step, "kind": "train", "loss": loss, "learning_rate": rate, "tokens_per_second": 4e4}


def held_out(step, loss, tokens=0.93, whole=0.61):
    return {"step": step, "kind": "eval", "loss": loss, "token_accuracy": tokens, "exact_match": whole}


def run(losses):
    return [train(100 * number, loss) for number, loss in enumerate(losses, start=1)]


def charts(metrics, **about):
    """Title -> chart."""
    return {chart.title: chart for chart in course_charts([RunCourse("", metrics, **about)])}


def test_a_run_with_everything(tmp_path):
    metrics = [*run([2.0, 1.5, 1.0]), held_out(200, 1.6), held_out(300, 1.2, 0.95, 0.7)]
    drawn_charts = charts(metrics)
    assert list(drawn_charts) == ["Loss, nats per token", "Held-out accuracy", "Learning rate"]
    training, evaluated = drawn_charts["Loss, nats per token"].curves
    assert (training.name, training.x, training.y) == ("training", [100, 200, 300], [2.0, 1.5, 1.0])
    assert (evaluated.name, evaluated.x, evaluated.y) == ("held-out", [200, 300], [1.6, 1.2])
    shares = chart_drawing(drawn_charts["Held-out accuracy"])
    assert {"tokens 95 %", "exact match 70 %", "100 %"} <= set(texts(shares))
    draw_curves(metrics, tmp_path / "curves.svg", "reverse <b> · run 1")
    labels = texts((tmp_path / "curves.svg").read_text())
    assert labels[:2] == ["reverse <b> · run 1", "Training curves · 300 steps · 40,000 tokens per second (median)"]
    assert [text for text in labels if text in drawn_charts] == list(drawn_charts)


def test_without_evaluation_or_without_training_only_the_rest_is_drawn():
    assert list(charts(run([2.0, 1.5]))) == ["Loss, nats per token", "Learning rate"]
    assert list(charts([held_out(1, 2.0)])) == ["Loss, nats per token", "Held-out accuracy"]
    assert charts([{"step": 1, "kind": "note"}]) == {}


def test_the_norm_of_the_gradient_is_drawn_with_the_norm_that_clips():
    metrics = [one | {"grad_norm": norm} for one, norm in zip(run([1.0] * 3), [3.0, 2.0, 0.5], strict=True)]
    drawing = chart_drawing(charts(metrics, clip_norm=1.0)["Gradient norm, clipped to 1"])
    assert len(paths(drawing, "mark", "warn")) == 1
    assert paths(chart_drawing(charts(metrics)["Gradient norm, before clipping"]), "mark") == []


@pytest.mark.parametrize("lowest", [2.0, 0.4, 0.009, 1e-9, 1e-30])
def test_numbers_at_a_logarithmic_axis_do_not_touch(lowest):
    metrics = [train(step, norm) for step, norm in enumerate(np.geomspace(10, lowest, 9), start=1)]
    drawing = chart_drawing(charts(metrics)["Loss, nats per token"])
    rules = sorted(float(d.split()[1].split("H")[0]) for d in paths(drawing, "frame", "rule"))
    assert len(rules) >= 2
    assert np.diff(rules).min() > 10.5


def test_the_end_of_the_warm_up_is_marked():
    (mark,) = charts(run([2.0, 1.0, 0.5]), warmup=120)["Learning rate"].marks
    assert mark == (120.0, "warm-up ends, 120")
    for steps in (0, 1, 5_000):
        assert not charts(run([2.0, 1.0]), warmup=steps)["Learning rate"].marks, "it has not ended"


def test_several_runs_share_charts_and_have_a_colour_each():
    runs = [RunCourse("one", run([2.0, 1.0]), clip_norm=1.0), RunCourse("two", [*run([3.0]), held_out(100, 2.0)])]
    drawn_charts = {chart.title: chart for chart in course_charts(runs)}
    named = [(curve.name, curve.colour, curve.dashed) for curve in drawn_charts["Loss, nats per token"].curves]
    assert named == [("one, training", 0, False), ("two, training", 1, False), ("two, held-out", 1, True)]


def test_both_runs_are_drawn_and_named():
    drawing = chart_drawing(comparison_chart([2.0, 1.0], [2.0, 3.0]))
    assert {"wrong 3", "right 1"} <= set(texts(drawing))
    right, wrong = (points(paths(drawing, "line", colour)[0])[0] for colour in ("c0", "c1"))
    assert right[0] == wrong[0]
    assert right[1][1] > wrong[1][1], "a higher loss is drawn higher"


def point(step, loss):
    return {"step": step, "kind": "train", "loss": loss}


def test_only_lines_of_the_kind_that_have_the_field_are_points():
    lines = [
        point(1, 3.0),
        {"step": 2, "kind": "eval", "loss": 9.0},
        {"step": 3, "kind": "train"},
        point(4, 2.0),
    ]
    points = series(lines, "train", "loss")
    np.testing.assert_array_equal(points.steps, [1, 4])
    np.testing.assert_array_equal(points.values, [3.0, 2.0])


def test_steps_rise_and_the_last_word_on_a_step_counts():
    points = series([point(1, 3.0), point(3, 1.0), point(2, 2.0), point(3, 0.5)], "train", "loss")
    np.testing.assert_array_equal(points.steps, [1, 2, 3])
    np.testing.assert_array_equal(points.values, [3.0, 2.0, 0.5])


@pytest.mark.parametrize("lost", [float("nan"), float("inf"), float("-inf"), None, 1e99, np.float32("nan")])
def test_what_is_not_finite_is_a_gap(lost):
    points = series([point(1, 1.0), point(2, lost), point(3, 1.0)], "train", "loss")
    np.testing.assert_array_equal(np.isfinite(points.values), [True, False, True])


@pytest.mark.parametrize("wrong", ["0.5", True, [1.0], {}])
def test_what_is_no_number_is_an_error_that_names_the_line(wrong):
    with pytest.raises(DataError, match=r"line 2: expected a number for loss, got .*mend the file"):
        series([point(1, 1.0), point(2, wrong)], "train", "loss")


@pytest.mark.parametrize("step", [None, "3", float("nan"), float("inf")])
def test_a_step_that_is_no_number_is_an_error(step):
    with pytest.raises(DataError, match=r"line 1: expected a (number for|finite) step"):
        series([point(step, 1.0)], "train", "loss")


def test_running_mean_keeps_gaps_and_leaves_them_out():
    line = of_values(np.arange(5.0), [1.0, 2.0, np.nan, 4.0, 8.0])
    np.testing.assert_array_equal(running_mean(line, 3).values, [1.5, 1.5, np.nan, 6.0, 6.0])


V = STEPS**2 + 1e-16 / STEPS
MIXED = [
    Sweep("softmax · x", STEPS, V, "right"),
    Sweep("linear · weight", STEPS, np.full(STEPS.shape, 0.5), "WRONG"),
    Sweep("gone · x", STEPS, np.full(STEPS.shape, np.nan), "CANNOT TELL"),
]


def test_the_worst_curves_of_a_sweep_are_named_with_their_lowest_errors(tmp_path):
    many = [*(Sweep(f"right · {i}", STEPS, V * (1 + i), "right") for i in range(30)), *MIXED]
    draw_sweep(many, tmp_path / "a.svg")
    shown = texts((tmp_path / "a.svg").read_text())
    named = [text for text in shown if " · " in text]
    assert named[0].startswith("gone · x")
    assert (named[1].startswith("linear · weight"), named[1].endswith("WRONG, 5e-01")) == (True, True)
    assert [name.partition("right,")[0].strip() for name in named[2:]] == [f"right · {i}" for i in range(29, 23, -1)]
    assert any(text.startswith("And 25 more, right, lowest errors up to ") for text in shown)
