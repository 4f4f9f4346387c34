"""The row of a tensor, from errors that are made up: what must stay twice, what is told, and what explains an error."""

import numpy as np
import pytest

from npformer.check.report import RIGHT, UNCLEAR, WRONG
from npformer.check.rounding.formats import FORMATS
from npformer.check.rounding.low_precision import Coefficients, Errors, Places, TensorComparison, row_of

N = np.array([4.0, -2.0, 3.0, 1.0])
PLACES = Places(np.arange(4), (4,), (), np.zeros((0, 4)))
NONE = {"scatter": 1e-9, "floor": 1e-9, "stored": 1e-9}


def row(*sets, n=N, terms=None, precision="bfloat16", claimed=None):
    """The row of a gradient n; sets: (mean, sizes) of the errors at one set of points."""
    terms = terms or {}
    coefficients = Coefficients.of(n, terms, 4, 2.0**-8)

    def errors(mean, excess=1.0, share=0.0, **sizes):
        more = np.ones(len(coefficients.texts))
        sizes = {name: np.broadcast_to(size, 4) for name, size in (NONE | sizes).items()}
        sizes = {name: np.concatenate([size, size[0] * more]) for name, size in sizes.items()}
        mean, once = np.concatenate([mean, coefficients.weights @ mean]), np.zeros(4 + len(more))
        spread = share * float(np.sqrt(np.mean(np.square(n))))
        return Errors(mean, **sizes, once=once, excess=excess, spread=spread)

    point_errors = [errors(mean, **sizes) for mean, sizes in sets]
    claimed = n + sets[0][0] if claimed is None else claimed
    return row_of(TensorComparison("x", claimed, PLACES, n, terms, coefficients, point_errors), FORMATS[precision], 4.0)


OFF = np.array([0.0, 0.0, 0.5, 0.0])


@pytest.mark.parametrize(("second", "expected"), [(OFF, WRONG), (0 * OFF, RIGHT)])
def test_what_does_not_stay_twice_at_the_same_place_is_no_mistake(second, expected):
    assert row((OFF, {}), (second, {})).verdict == expected


@pytest.mark.parametrize(("stored", "expected"), [(0.16, WRONG), (0.17, UNCLEAR)])
def test_what_stays_is_told_in_roundings_and_wrong_beyond_three_that_are_stored(stored, expected):
    """A rounding is √3 of its root mean square."""
    judged_row = row((OFF, {"scatter": 0.0, "floor": 0.01, "stored": stored}))
    assert (judged_row.verdict, judged_row.worst_index) == (expected, (2,))
    assert judged_row.note.startswith(
        f"in bfloat16, as if rounded {0.5 / 0.01 / 3**0.5:.3g} times, at 12 points nearby"
    )
    assert judged_row.note.endswith("too little to be called a mistake") == (expected == UNCLEAR)


@pytest.mark.parametrize(("hidden", "expected"), [([4, 0, 0, 0], UNCLEAR), ([0, 4, 0, 4], RIGHT)])
def test_right_is_told_by_entries_that_have_half_of_the_gradient_s_squares(hidden, expected):
    judged_row = row((0 * N, {"floor": np.array(hidden) + 1e-9}))
    assert (judged_row.verdict, judged_row.unjudged) == (expected, np.count_nonzero(hidden))
    assert ("most of the gradient is less than what scatters" in judged_row.note) == (expected == UNCLEAR)


def test_an_entry_of_0_that_is_exact_is_not_counted_as_hidden():
    judged_row = row((0 * N, {"scatter": 0.0, "floor": 0.0}), n=np.array([4.0, 0.0, 0.0, 1.0]))
    assert (judged_row.verdict, judged_row.unjudged) == (RIGHT, 0)


@pytest.mark.parametrize("excess", [(4.0, 4.0), (4.0, 1.0)])
def test_errors_are_rough_if_they_are_at_every_set_of_points(excess):
    judged_row = row(*((0 * N, {"excess": each, "share": 0.02}) for each in excess))
    assert judged_row.verdict == (UNCLEAR if min(excess) > 3 else RIGHT)
    text = "errors scatter 4 times as far as if every result were rounded once, by 2.0 % of the gradient: imprecise"
    assert (text in judged_row.note) == (min(excess) > 3)


TERM = np.array([1.0, 2.0, -1.0, 3.0])  # not along N


@pytest.mark.parametrize(
    ("mean", "note"),
    [
        (-TERM, "as if `t` were missing: -1 ± 1e-09 of it"),
        (-TERM + N, "as if `t` were missing: -1 ± 1e-09 of it"),
        (0.25 * N, "1.25 ± 1e-09 times the reference's gradient"),
        (-0.5 * TERM, "as if rounded"),
        (OFF, "as if rounded"),
    ],
    ids=["term", "term and factor", "factor", "half of a term", "an entry"],
)
def test_a_term_or_a_factor_that_explains_all_is_named(mean, note):
    judged_row = row((mean, {"scatter": 0.0}), terms={"t": TERM})
    assert judged_row.verdict == WRONG
    assert judged_row.note.startswith(f"in bfloat16, {note}"), judged_row.note


def test_entries_that_are_not_finite_or_too_small_for_float16_are_counted():
    judged_row = row((0 * N, {}), claimed=np.array([4, np.nan, 3, np.inf]))
    assert (judged_row.verdict, judged_row.note) == (WRONG, "2 of 4 entries are not finite in bfloat16")
    small = np.array([4.0, 1e-5, -6e-5, 7e-5])
    assert "; 2 of 4 entries are below float16's smallest" in row((0 * N, {}), n=small, precision="float16").note
