"""Sums over rows: right for every shape, and the same bits whatever the number of threads."""

from contextlib import nullcontext

import numpy as np
import pytest

from npformer.engine.cuda.sums import MOST_SUMS, ONE_PASS, add_both, backward_pass, column_sums

#: No rows, few, just as many as one pass takes, one more, and as many as make the most parts.
ROWS = [0, 1, 5, 33, ONE_PASS, ONE_PASS + 1, 70_001]


def numbers(dtype, *shape):
    """Small fractions of 16, whose sums are exact in either dtype."""
    return (np.random.default_rng(0).integers(-64, 65, size=shape) / 16).astype(dtype)


@pytest.mark.parametrize(("rows", "width"), [(n, w) for n in ROWS for w in (1, 3, 32, 45) if n * w < 300_000])
def test_columns(runtime, dtype, rows, width):
    x, into = numbers(dtype, rows, width), numbers(dtype, width)
    before, true = into.copy(), x.sum(axis=0)
    np.testing.assert_array_equal(column_sums(runtime, x), true)
    assert column_sums(runtime, x, into) is into
    np.testing.assert_array_equal(into, before + true)
    assert len(runtime.launched) == (2 if rows <= ONE_PASS else 4)


def test_columns_of_a_wider_matrix_into_an_array_with_gaps(runtime):
    x, wide = numbers("float64", 7, 12)[:, 4:9], np.full(10, 3.0)
    column_sums(runtime, x, wide[::2])
    np.testing.assert_array_equal(wide[::2], 3 + x.sum(axis=0))
    assert (wide[1::2] == 3).all()


@pytest.mark.parametrize("frozen", [(), (0,), (1,), (0, 1)])
@pytest.mark.parametrize("step", [1, 2])
def test_two_sums_at_once(runtime, frozen, step):
    partials = numbers("float64", 6, 2, 35)
    places = [None if i in frozen else np.full(35 * step, 2.0 + i)[::step] for i in range(2)]
    assert add_both(runtime, partials, places) == ()
    for i, place in enumerate(places):
        if place is not None:
            np.testing.assert_array_equal(place, 2 + i + partials[:, i].sum(axis=0))
    assert len(runtime.launched) <= 1 or step == 2


def test_two_sums_returned(runtime):
    partials = numbers("float64", 6, 2, 35)
    np.testing.assert_array_equal(add_both(runtime, partials, ()), partials.sum(axis=0))
    second = np.ones(35)
    (first,) = add_both(runtime, partials, (second,))
    np.testing.assert_array_equal((first, second - 1), partials.sum(axis=0))


def totals(runtime, matrices, put_off=True):
    """The sums of all these, each added to ones, and what the runtime launched for them."""
    runtime.launched.clear()
    found = [np.ones(x.shape[1], x.dtype) for x in matrices]
    with backward_pass(runtime) if put_off else nullcontext():
        for x, into in zip(matrices, found, strict=True):
            column_sums(runtime, x, into)
        assert len(runtime.launched) == 0 or not put_off
    return found, runtime.launched


def test_sums_of_a_backward_pass_are_made_together_to_the_same_bit(runtime, dtype):
    rng = np.random.default_rng(0)
    matrices = [rng.normal(size=shape).astype(dtype) for shape in ((1500, 40), (7, 33), (1100, 3), (1, 1), (0, 5))]
    found, launched = totals(runtime, matrices)
    assert launched == ["sums.add_rows"] * 2
    alone, launched = totals(runtime, matrices, put_off=False)
    assert len(launched) == 7
    for x, y in zip(found, alone, strict=True):
        np.testing.assert_array_equal(x, y)
    assert runtime.later is None


def test_more_sums_than_a_launch_takes(runtime):
    with backward_pass(runtime):
        found = [column_sums(runtime, numbers("float64", 3, 2) * i, np.zeros(2)) for i in range(2 * MOST_SUMS + 1)]
        assert len(runtime.launched) == 2
    assert len(runtime.launched) == 3
    np.testing.assert_array_equal(found, [numbers("float64", 3, 2).sum(axis=0) * i for i in range(len(found))])


def test_two_sums_into_one_array_come_one_after_the_other(runtime):
    """As of a layer that is used twice, whole or in part."""
    x, into = numbers("float64", 5, 6), np.zeros(6)
    with backward_pass(runtime):
        for part in (slice(0, 6), slice(0, 6), slice(4, 6)):
            column_sums(runtime, x[:, part], into[part])
    np.testing.assert_array_equal(into, x.sum(axis=0) * [2, 2, 2, 2, 3, 3])
    assert len(runtime.launched) == 3


def test_a_sum_is_made_before_what_it_reads_is_written(runtime):
    x, into = numbers("float64", 5, 6), np.zeros(3)
    with backward_pass(runtime):
        column_sums(runtime, x[:, :3], into)
        runtime.later.before_writing(numbers("float64", 5, 6))
        assert runtime.launched == []
        runtime.later.before_writing(x[:2, 2:])
        assert len(runtime.launched) == 1
    np.testing.assert_array_equal(into, x[:, :3].sum(axis=0))


def test_a_pass_that_fails_adds_nothing(runtime):
    into = np.zeros(6)

    def fail():
        with backward_pass(runtime):
            column_sums(runtime, np.ones((5, 6)), into)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert (into == 0).all()
    assert runtime.later is None


@pytest.mark.parametrize("rows", [700, 1500])
def test_the_number_of_threads_changes_no_bit(runtime, dtype, rows):
    x = np.random.default_rng(0).normal(size=(rows, 40)).astype(dtype)
    alone = type(runtime)(block=1)
    np.testing.assert_array_equal(column_sums(runtime, x), column_sums(alone, x))
    assert not np.array_equal(column_sums(runtime, x), x[::-1].sum(axis=0))  # an order that rounds otherwise is seen


def test_nan_is_seen(runtime, dtype):
    x = numbers(dtype, 1500, 3)
    x[777, 1] = np.nan
    assert np.isnan(column_sums(runtime, x)).tolist() == [False, True, False]
