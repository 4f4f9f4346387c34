"""Each regime on a small array, by hand; what an input is; what is refused."""

import numpy as np
import pytest

from npformer.check.regimes import KINDS, REGIMES, Around, chosen, variants
from npformer.errors import ConfigError

X = np.array([[1.0, -2.0, 3.0], [-1.0, 0.5, -4.0]])
CLASSES = np.array([2, 0])


def changed(name, x=X, precision="float64", others=(), ignored=(), lengths=()):
    """All that a regime makes of x."""
    around = Around(precision, others, ignored, lengths)
    return [there.tolist() for there in variants(name, np.asarray(x), around)]


@pytest.mark.parametrize(("name", "expected"), [
    ("confident", [[[15, -2, 3], [-1, 12.5, -4]], [[33, -2, 3], [-1, 30.5, -4]]]),
    ("saturated above", [[[n + 1, n + 2, n + 3], [n + 1, n + 0.5, n + 4]] for n in (100, 750)]),
    ("saturated below", [[[-n - 1, -n - 2, -n - 3], [-n - 1, -n - 0.5, -n - 4]] for n in (100, 750)]),
    ("saturated", [[[n + 1, -n - 2, n + 3], [-n - 1, n + 0.5, -n - 4]] for n in (100, 750)]),
    ("nearly constant", [[[1.001, 0.998, 1.003], [0.999, 1.0005, 0.996]]]),
    ("offset", [[[101, 98, 103], [99, 100.5, 96]]]),
    ("times 3", [[[3, -6, 9], [-3, 1.5, -12]]]),
    ("times 10", [[[10, -20, 30], [-10, 5, -40]]]),
    ("tiny", [[[1e-6, -2e-6, 3e-6], [-1e-6, 5e-7, -4e-6]]]),
    ("zeros", [[[0, 0, 0], [-1, 0, -4]]]),
    ("ties", [[[3, -2, 3], [-1, 0.5, 0.5]]]),
    ("negative", [[[-1, -2, -3], [-1, -0.5, -4]]]),
    ("repeated ids", []),
    ("all padded", []),
])  # fmt: skip
def test_what_a_regime_makes_of_scores(name, expected):
    np.testing.assert_allclose(changed(name), expected, rtol=1e-15)


def test_the_certain_entry_is_the_class_if_there_are_classes():
    assert changed("confident", others=[CLASSES])[0] == [[1, -2, 15], [12.5, 0.5, -4]]
    assert changed("confident", others=[np.array([3, 0])]) == changed("confident"), "3 is no column"


def test_few_digits_get_a_smaller_offset_and_float16_larger_tiny_numbers():
    assert changed("offset", precision="bfloat16")[0][0] == [31, 28, 33]
    assert changed("offset", precision="float32")[0][0] == [1001, 998, 1003]
    assert changed("tiny", precision="float16")[0][0] == [1e-3, -2e-3, 3e-3]


def test_a_single_number_and_a_row():
    assert changed("confident", np.array(2.0)) == changed("ties", np.array(2.0)) == []
    assert changed("zeros", np.array(2.0)) == [0]
    assert changed("zeros", np.array([3.0, 4.0])) == [[0, 4]]
    assert changed("times 3", np.zeros(3)) == [], "zeros stay zeros: nothing new is tried"


def test_the_dtype_stays():
    around = Around("float32", (), ())
    assert all(there.dtype == np.float32 for name in REGIMES for there in variants(name, X.astype("f4"), around))


def test_ids_are_repeated_and_a_permutation_stays():
    assert changed("repeated ids", [4, 0, 6]) == [[4, 4, 4]]
    for regime in ("repeated ids", "all padded"):
        assert changed(regime, [2, 0, 1], lengths=(3,)) == []
        assert changed(regime, [[1, 0, 2], [0, 2, 1]], lengths=(3,)) == [], "a permutation in each row"
        assert changed(regime, [[1, 0], [0, 2], [2, 1]], lengths=(3,)) == [], "a permutation in each column"
    assert changed("repeated ids", [2, 0, 1], lengths=(4, 7)) == [[2, 2, 2]], "of no axis"


def test_what_is_padded():
    assert changed("all padded", [True, False]) == [[False, False], [True, True]]
    assert changed("all padded", [[True, False], [True, True]]) == [
        [[False, False], [True, True]],
        [[True, True], [True, True]],
    ]
    assert changed("all padded", [3, 5], ignored=(-1,)) == [[-1, -1], [-1, 5], [0, 0], [0, 5]]


def test_the_lengths_of_parts_stay_as_long_as_their_axis():
    assert changed("all padded", [3, 1, 2], lengths=(6,)) == [[0, 1, 5]]
    assert changed("repeated ids", [3, 1, 2], lengths=(6,)) == []


def test_ids_may_be_below_zero_where_some_are():
    assert [-1, -1] in changed("all padded", [2, -1])
    assert [-1, -1] not in changed("all padded", [2, 1])


def test_what_an_input_is():
    assert chosen("all", ["x"]) == {"x": tuple(REGIMES)}
    assert chosen(["ties", "zeros"], ["x", "y"]) == {"x": ("ties", "zeros"), "y": ("ties", "zeros")}
    found = chosen({"x": "gates", "n": ["lengths"]}, ["x", "y", "n"])
    assert found == {"x": KINDS["gates"], "n": ("all padded",)}


def test_what_is_refused():
    with pytest.raises(ConfigError, match=r"regimes: expected all, scores, rows, .*, got 'confidant'"):
        chosen("confidant", ["x"])
    with pytest.raises(ConfigError, match="regimes: expected names of arrays, among x, got z"):
        chosen({"z": "scores"}, ["x"])
