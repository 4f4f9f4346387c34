"""What metrics.jsonl says becomes points, gaps or a clear error."""

import numpy as np
import pytest

from npformer.errors import DataError
from npformer.plotting.series import Series, running_mean, series


def train(step, loss):
    return {"step": step, "kind": "train", "loss": loss}


def test_only_lines_of_the_kind_that_have_the_field_are_points():
    lines = [
        train(1, 3.0),
        {"step": 2, "kind": "eval", "loss": 9.0},
        {"step": 3, "kind": "train"},
        train(4, 2.0),
    ]
    found = series(lines, "train", "loss")
    np.testing.assert_array_equal(found.steps, [1, 4])
    np.testing.assert_array_equal(found.values, [3.0, 2.0])


def test_steps_rise_and_the_last_word_on_a_step_counts():
    found = series([train(1, 3.0), train(3, 1.0), train(2, 2.0), train(3, 0.5)], "train", "loss")
    np.testing.assert_array_equal(found.steps, [1, 2, 3])
    np.testing.assert_array_equal(found.values, [3.0, 2.0, 0.5])


@pytest.mark.parametrize("lost", [float("nan"), float("inf"), float("-inf"), None, 1e99, np.float32("nan")])
def test_what_is_not_finite_is_a_gap(lost):
    found = series([train(1, 1.0), train(2, lost), train(3, 1.0)], "train", "loss")
    np.testing.assert_array_equal(found.finite, [True, False, True])


@pytest.mark.parametrize("wrong", ["0.5", True, [1.0], {}])
def test_what_is_no_number_is_an_error_that_names_the_line(wrong):
    with pytest.raises(DataError, match=r"line 2: expected a number for loss, got .*mend the file"):
        series([train(1, 1.0), train(2, wrong)], "train", "loss")


@pytest.mark.parametrize("step", [None, "3", float("nan"), float("inf")])
def test_a_step_that_is_no_number_is_an_error(step):
    with pytest.raises(DataError, match=r"line 1: expected a (number for|finite) step"):
        series([train(step, 1.0)], "train", "loss")


def test_points_without_neighbours_are_known():
    nan = np.nan
    values = np.array([1.0, nan, 2.0, 3.0, nan, 4.0])
    assert Series(np.arange(6.0), values).alone.tolist() == [0, 5]
    assert Series(np.arange(1.0), values[:1]).alone.tolist() == [0]


def test_running_mean_keeps_gaps_and_leaves_them_out():
    line = Series(np.arange(5.0), np.array([1.0, 2.0, np.nan, 4.0, 8.0]))
    np.testing.assert_array_equal(running_mean(line, 3).values, [1.5, 1.5, np.nan, 6.0, 6.0])
