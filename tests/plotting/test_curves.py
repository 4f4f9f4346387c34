"""The picture of a run, or of two, shows what was logged, and says what it cannot show.

What metrics.jsonl says becomes points, gaps or a clear error.
"""

import numpy as np
import pytest

from npformer.errors import DataError
from npformer.plotting import draw_curves
from npformer.plotting.curves import comparison_figure, curves_figure
from npformer.plotting.panels import Series, running_mean, series, spread
from tests.plotting.figures import expect_inside, texts

NAN, INF = float("nan"), float("inf")


def train(step, loss, rate=1e-3):
    return {"step": step, "kind": "train", "loss": loss, "learning_rate": rate, "tokens_per_second": 4e4}


def held_out(step, loss, tokens=0.93, whole=0.61):
    return {"step": step, "kind": "eval", "loss": loss, "token_accuracy": tokens, "exact_match": whole}


def run(losses):
    return [train(100 * number, loss) for number, loss in enumerate(losses, start=1)]


def titles(figure):
    return [axes.get_title(loc="left") for axes in figure.axes]


def line(axes, name):
    return next(found for found in axes.lines if found.get_label() == name)


def test_a_run_with_everything():
    figure = curves_figure([*run([2.0, 1.5, 1.0]), held_out(200, 1.6), held_out(300, 1.2, 0.95, 0.7)])
    assert titles(figure) == ["Loss (nats per token)", "Held-out accuracy (%)", "Learning rate"]
    loss, accuracy, rate = figure.axes
    assert texts(loss) == ["training 1", "held-out 1.2"]
    assert texts(accuracy) == ["token accuracy 95.0 %", "exact match 70.0 %"]
    assert texts(rate) == ["last 0.001"]
    np.testing.assert_allclose(line(accuracy, "token accuracy").get_ydata(), [93.0, 95.0])
    np.testing.assert_array_equal(line(loss, "training").get_xdata(), [100, 200, 300])
    assert texts(figure) == [
        "Training curves",
        "Training curves · 300 steps · 40,000 tokens per second (median)",
    ]
    expect_inside(figure)


def test_all_panels_share_the_step_axis_and_the_lowest_names_it():
    figure = curves_figure([*run([2.0, 1.0]), held_out(400, 1.0)])
    assert {axes.get_xlim() for axes in figure.axes} == {(0.0, 400.0)}
    assert [axes.get_xlabel() for axes in figure.axes] == ["", "", "training step"]


def test_the_axis_starts_where_a_continued_run_starts():
    figure = curves_figure([train(5000, 1.0), train(6000, 0.9)])
    assert figure.axes[0].get_xlim() == (5000.0, 6000.0)


@pytest.mark.parametrize(
    ("losses", "scale"),
    [([2.0, 1.0], "linear"), ([2.0, 0.05], "log"), ([2.0, 0.0], "linear"), ([NAN, NAN], "linear")],
)
def test_the_loss_has_a_log_scale_where_its_range_asks_for_it(losses, scale):
    axes = curves_figure(run(losses)).axes[0]
    assert axes.get_yscale() == scale
    assert axes.get_title(loc="left").endswith("log scale") == (scale == "log")


def test_without_evaluation_there_is_no_accuracy_panel():
    assert titles(curves_figure(run([2.0, 1.5]))) == ["Loss (nats per token)", "Learning rate"]


def test_without_training_lines_the_evaluation_is_shown():
    assert titles(curves_figure([held_out(1, 2.0)])) == ["Loss (nats per token)", "Held-out accuracy (%)"]


def test_a_single_point_is_visible():
    figure = curves_figure([train(100, 2.0)])
    drawn = line(figure.axes[0], "training")
    assert drawn.get_marker() == "o"
    assert drawn.get_markevery() == [0]
    assert figure.axes[0].get_xlim()[0] <= 100 <= figure.axes[0].get_xlim()[1]
    expect_inside(figure)


def test_losses_that_are_not_finite_are_gaps_and_the_picture_says_so():
    figure = curves_figure([*run([2.0, 1.5, NAN, 1.4, INF, None]), held_out(300, INF), held_out(600, 1.0)])
    axes = figure.axes[0]
    np.testing.assert_array_equal(np.isnan(line(axes, "training").get_ydata()), [False, False, True, False, True, True])
    assert line(axes, "training").get_markevery() == [3]  # has no neighbour: a dot, or it would vanish
    np.testing.assert_array_equal(line(axes, "not finite").get_xdata(), [300, 500, 600, 300])
    assert texts(axes) == [
        "training 1.4 → ×",
        "held-out 1",
        "× training: 3 of 6 values not finite, first at step 300\n"
        "× held-out: 1 of 2 values not finite, first at step 300",
    ]
    expect_inside(figure)


def test_the_sentence_about_gaps_stands_clear_of_the_lines_and_the_title():
    figure = curves_figure([*run([2.0, NAN]), held_out(200, NAN)])
    figure.canvas.draw()
    subtitle = figure.texts[1].get_window_extent()
    axes = figure.axes[0]
    sentence = next(text for text in axes.texts if text.get_text().startswith("×")).get_window_extent()
    assert axes.get_window_extent().y1 < sentence.y0
    title = next(text for text in axes.get_children() if getattr(text, "get_text", str)() == "Loss (nats per token)")
    assert sentence.y1 < title.get_window_extent().y0
    assert title.get_window_extent().y1 < subtitle.y0


def test_a_run_of_nothing_but_nan_is_drawn():
    figure = curves_figure([*run([NAN, NAN]), held_out(200, NAN, NAN, NAN)])
    assert "2 of 2 values not finite" in texts(figure.axes[0])[0]
    expect_inside(figure)


@pytest.mark.parametrize("losses", [[0.0], [0.0, 0.0], [-1.0, 2.0], [5.0, 5.0], [1e-300, 1e98], [1e38, 3e38]])
def test_odd_values_are_drawn_without_a_warning(losses, tmp_path):
    draw_curves([train(step, loss, rate=0.0) for step, loss in enumerate(losses)], tmp_path / "curves.png")
    assert (tmp_path / "curves.png").stat().st_size > 1000


def test_many_logged_values_get_a_running_mean_and_the_title_says_so():
    losses = [2.0 + (-1) ** step for step in range(200)]
    axes = curves_figure(run(losses)).axes[0]
    assert axes.get_title(loc="right") == "pale: as logged · solid: mean of 7 values"
    assert np.ptp(line(axes, "training").get_ydata()[5:-5]) < 0.5 < np.ptp(axes.lines[0].get_ydata())
    assert curves_figure(run(losses[:59])).axes[0].get_title(loc="right") == ""


def test_names_of_lines_that_end_together_do_not_touch():
    figure = curves_figure([*run([2.0, 1.0]), held_out(200, 1.0, 1.0, 1.0)])
    figure.canvas.draw()
    for axes in figure.axes[:2]:
        upper, lower = [text.get_window_extent() for text in axes.texts if text.get_text()]
        assert upper.y0 >= lower.y1


def test_spread_keeps_order_and_mean():
    assert spread([], 1.0) == []
    assert spread([0.0, 5.0], 1.0) == [0.0, 5.0]
    assert spread([2.0, 2.0], 1.0) == [2.5, 1.5]
    assert spread([0.0, 0.2, 0.1], 1.0) == pytest.approx([-0.9, 1.1, 0.1])


def test_no_score_is_rounded_up_to_a_perfect_one():
    accuracy = curves_figure([held_out(1, 0.1, 1.0, 0.9996)]).axes[1]
    assert texts(accuracy) == ["token accuracy 100.0 %", "exact match 99.9 %"]


def test_the_title_names_the_task_and_the_run_as_they_are():
    figure = curves_figure(run([2.0, 1.0]), "lm of $a_1$.txt · run my_run-$2")
    assert texts(figure)[0] == "lm of $a_1$.txt · run my_run-$2"
    assert not figure.texts[0].get_parse_math()
    expect_inside(figure)


def with_norms(norms):
    return [one | {"grad_norm": norm} for one, norm in zip(run([1.0] * len(norms)), norms, strict=True)]


def test_the_norm_of_the_gradient_is_drawn_with_the_norm_that_clips():
    figure = curves_figure(with_norms([3.0, 2.0, 0.5]), clip_norm=1.0)
    assert titles(figure) == ["Loss (nats per token)", "Learning rate", "Gradient norm, clipped to 1"]
    axes = figure.axes[2]
    np.testing.assert_array_equal(line(axes, "last").get_ydata(), [3.0, 2.0, 0.5])
    assert [list(each.get_ydata()) for each in axes.lines if each.get_linestyle() == ":"] == [[1.0, 1.0]]
    expect_inside(figure)
    unclipped = curves_figure(with_norms([0.3, 0.2, 0.1]), clip_norm=1.0).axes[2]
    assert [each for each in unclipped.lines if each.get_linestyle() == ":"] == [], "beyond the axes"
    assert titles(curves_figure(with_norms([0.3]), clip_norm=None))[2] == "Gradient norm"


@pytest.mark.parametrize("lowest", [2.0, 0.4, 0.009, 1e-9, 1e-30])
def test_numbers_at_a_logarithmic_axis_do_not_touch(lowest):
    norms = np.geomspace(10, lowest, 9)
    figure = curves_figure([{**train(step, norm), "grad_norm": norm} for step, norm in enumerate(norms, start=1)])
    figure.canvas.draw()
    for axes in (figure.axes[0], figure.axes[-1]):
        boxes = [label.get_window_extent() for label in axes.get_yticklabels()]
        seen = sorted(box.y0 for box in boxes if axes.bbox.y0 - 1 <= (box.y0 + box.y1) / 2 <= axes.bbox.y1 + 1)
        assert len(seen) >= 2
        assert np.diff(seen).min() > boxes[0].height


def test_the_warm_up_is_marked():
    figure = curves_figure(run([2.0, 1.0, 0.5]), warmup=120)
    rate = figure.axes[1]
    assert "warm-up to step 120" in texts(rate)
    (shade,) = rate.patches
    assert (shade.get_x(), shade.get_width()) == (0, 120)
    expect_inside(figure)
    for steps in (0, 1):
        assert not curves_figure(run([2.0, 1.0]), warmup=steps).axes[1].patches


def test_a_warm_up_that_has_not_ended_fills_the_panel():
    figure = curves_figure(run([2.0, 1.0]), warmup=5_000)
    assert figure.axes[1].get_xlim() == (0.0, 200.0)
    expect_inside(figure)


def test_both_runs_are_drawn_and_named():
    figure = comparison_figure([2.0, 1.0], [2.0, 3.0], "A title", ["right: a", "wrong: b"])
    (axes,) = figure.axes
    assert texts(axes) == ["wrong 3", "right 1"]
    lines = {line.get_label(): line for line in axes.lines}
    np.testing.assert_array_equal(lines["right"].get_ydata(), [2.0, 1.0])
    np.testing.assert_array_equal(lines["wrong"].get_xdata(), [1, 2])
    assert texts(figure) == ["A title", "right: a", "wrong: b"]


def test_a_run_that_broke_down_is_a_gap_and_a_sentence():
    (axes,) = comparison_figure([2.0, 1.0, 0.9], [2.0, NAN, NAN], "t").axes
    assert any("2 of 3 values not finite, first at step 2" in text for text in texts(axes))


def test_everything_of_two_runs_stays_inside_the_picture():
    figure = comparison_figure([2.0, 1.0], [2.0, NAN], "A long title " * 9, ["a note that is long " * 12])
    expect_inside(figure)


def point(step, loss):
    return {"step": step, "kind": "train", "loss": loss}


def test_only_lines_of_the_kind_that_have_the_field_are_points():
    lines = [
        point(1, 3.0),
        {"step": 2, "kind": "eval", "loss": 9.0},
        {"step": 3, "kind": "train"},
        point(4, 2.0),
    ]
    found = series(lines, "train", "loss")
    np.testing.assert_array_equal(found.steps, [1, 4])
    np.testing.assert_array_equal(found.values, [3.0, 2.0])


def test_steps_rise_and_the_last_word_on_a_step_counts():
    found = series([point(1, 3.0), point(3, 1.0), point(2, 2.0), point(3, 0.5)], "train", "loss")
    np.testing.assert_array_equal(found.steps, [1, 2, 3])
    np.testing.assert_array_equal(found.values, [3.0, 2.0, 0.5])


@pytest.mark.parametrize("lost", [float("nan"), float("inf"), float("-inf"), None, 1e99, np.float32("nan")])
def test_what_is_not_finite_is_a_gap(lost):
    found = series([point(1, 1.0), point(2, lost), point(3, 1.0)], "train", "loss")
    np.testing.assert_array_equal(found.finite, [True, False, True])


@pytest.mark.parametrize("wrong", ["0.5", True, [1.0], {}])
def test_what_is_no_number_is_an_error_that_names_the_line(wrong):
    with pytest.raises(DataError, match=r"line 2: expected a number for loss, got .*mend the file"):
        series([point(1, 1.0), point(2, wrong)], "train", "loss")


@pytest.mark.parametrize("step", [None, "3", float("nan"), float("inf")])
def test_a_step_that_is_no_number_is_an_error(step):
    with pytest.raises(DataError, match=r"line 1: expected a (number for|finite) step"):
        series([point(step, 1.0)], "train", "loss")


def test_points_without_neighbours_are_known():
    nan = np.nan
    values = np.array([1.0, nan, 2.0, 3.0, nan, 4.0])
    assert Series(np.arange(6.0), values).alone.tolist() == [0, 5]
    assert Series(np.arange(1.0), values[:1]).alone.tolist() == [0]


def test_running_mean_keeps_gaps_and_leaves_them_out():
    line = Series(np.arange(5.0), np.array([1.0, 2.0, np.nan, 4.0, 8.0]))
    np.testing.assert_array_equal(running_mean(line, 3).values, [1.5, 1.5, np.nan, 6.0, 6.0])
