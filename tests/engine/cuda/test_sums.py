"""Sums over rows: right for every shape, and the same bits whatever the number of threads."""

import numpy as np
import pytest

from npformer.engine.cuda.sums import ONE_PASS, add_both, add_partials, column_sums

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


def test_an_output_array_with_gaps(runtime):
    x, wide = numbers("float64", 7, 5), np.full(10, 3.0)
    column_sums(runtime, x, wide[::2])
    np.testing.assert_array_equal(wide[::2], 3 + x.sum(axis=0))
    assert (wide[1::2] == 3).all()


def test_columns_of_a_wider_matrix(runtime):
    x = numbers("float64", 7, 12)
    np.testing.assert_array_equal(add_partials(runtime, x[:, 4:9]), x[:, 4:9].sum(axis=0))


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
