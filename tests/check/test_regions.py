"""Large tensors: a mistake in one block or one small entry is found, and its place is named."""

import numpy as np
import pytest

from npformer.check.report import RIGHT, WRONG
from tests.check.functions import SOFTMAX, layer_norm, normal, only_row, spoiled

X = normal(8, 40, 50)  # 16,000
LARGE = normal(300, 300, seed=1)  # 90,000
#: Sizes from 1 to 1e-10.
SCALES = 10.0 ** np.random.default_rng(2).uniform(-10, 0, size=X.shape)


def checked(x, spoil, scales=1.0, **options):
    """y = scales·sin x, its gradient spoiled."""
    sine = (lambda x: (scales * np.sin(x), x), lambda dy, x: scales * dy * np.cos(x))
    return only_row(spoiled(sine, spoil), x, explain=False, **options)


def times(factor, *index):
    def spoil(dx):
        dx[index] *= factor
        return dx

    return spoil


def right(dx):
    return dx


PLACES = {
    "[:, 16:24, 3]": (slice(None), slice(16, 24), 3),
    "[5, :, :]": (5,),
    "[0:2, :, 40:50]": (slice(0, 2), slice(None), slice(40, 50)),
    "[3, 7, 11]": (3, 7, 11),
    "[7, 39, 49]": (7, 39, 49),
    "everywhere": (slice(None),),
}


@pytest.mark.parametrize(
    ("region", "scales"), [*((region, 1.0) for region in PLACES), ("[3, 7, 11]", SCALES), ("[:, 16:24, 3]", SCALES)]
)
def test_the_region_of_a_mistake_is_named(region, scales):
    row = checked(X, times(1.01, *PLACES[region]), scales)
    assert (row.verdict, row.region) == (WRONG, region)
    assert row.by_direction


def test_one_hidden_entry_is_found_that_directions_do_not_see():
    """1e-12 of the largest, and twice too large: in a sum over 90,000 that is nothing."""
    scales = np.ones(LARGE.shape)
    scales[123, 45] = 1e-12
    row = checked(LARGE, times(2, 123, 45), scales)
    assert (row.verdict, row.region) == (WRONG, "[123, 45]")
    assert row.note == "by directions in which every entry counts alike"
    assert row.scaled_error > 1e-10
    assert checked(LARGE, right, scales).verdict == RIGHT


@pytest.mark.parametrize("scales", [1.0, SCALES], ids=["alike", "sizes from 1e-10 to 1"])
@pytest.mark.parametrize("complex_step", [True, False])
def test_a_right_gradient_is_right_and_has_no_region(scales, complex_step):
    row = checked(X, right, scales, complex_step=complex_step)
    assert (row.verdict, row.region) == (RIGHT, "")


def judged(pair, x, **options):
    """The verdict on the input's gradient, and its region."""
    row = only_row(pair, x, **options)
    return row.verdict, row.region


@pytest.mark.parametrize("offset", [0, 1e6])
def test_terms_that_cancel_are_no_mistake(offset):
    """Far from 0, rounding moves the gradient of LayerNorm by far more than 1e-16."""
    assert judged(layer_norm(), X + offset) == (RIGHT, "")
    for region in ("[:, 16:24, 3]", "[3, 7, 11]"):
        wrong = spoiled(layer_norm(), times(1.01, *PLACES[region]))
        assert judged(wrong, X + offset, explain=False) == (WRONG, region)


@pytest.mark.parametrize("scale", [10, 1000])
def test_a_saturated_softmax_is_right(scale):
    """Where y is 1 but for rounding, dy − Σ dy·y cancels to 0 or to noise, and true gradients are 1e-20 and less."""
    x = scale * LARGE[:100, :64]
    assert judged(SOFTMAX, x) == (RIGHT, "")

    def without_tiny(dx):
        dx[np.abs(dx) < 1e-18] = 0
        return dx

    assert judged(spoiled(SOFTMAX, without_tiny), x)[0] == RIGHT


@pytest.mark.parametrize(
    ("scale", "size", "which", "least"), [(5, 1e-10, 7, 0), (20, 1e-10, -1, 1e-18), (20, 1e-6, -1, 1e-18)]
)
def test_in_a_peaked_or_saturated_softmax_the_wrong_entry_is_named_and_not_the_noise(scale, size, which, least):
    def spoil(dx):
        dx[np.abs(dx) < least] = 0
        dx[tuple(small)] *= 1.01
        return dx

    x = scale * LARGE[:100, :64]
    y = SOFTMAX[0](x)[0]
    small = np.argwhere((y > size) & (y < 10 * size))[which]
    assert judged(spoiled(SOFTMAX, spoil), x, explain=False) == (WRONG, f"[{small[0]}, {small[1]}]")


def test_small_tensors_have_no_region():
    row = checked(X[0, :10], times(1.01, 3, 7))
    assert (row.verdict, row.region, row.worst_index) == (WRONG, "", (3, 7))


def test_nan_in_a_large_gradient_is_wrong():
    assert checked(X, times(np.nan, 3, 7, 11)).verdict == WRONG
