"""The kernels of recorded decoding: the choice of a token, and attention to what is kept, against NumPy."""

import numpy as np
import pytest

from npformer.engine.numba.decoding import GOES_ON, MADE, PLACE, STOPS, TOKEN, admit, choose_likeliest
from npformer.engine.numba.decoding import likeliest as likeliest_of
from npformer.engine.numba.recording import POSITION


def test_the_likeliest_is_numpys():
    nan, inf = np.nan, np.inf
    for row in ([1.0], [1, 3, 3, 2], [-inf, -inf], [-2, nan, 5, nan], [nan, 1], [inf, 1, inf], [-nan, 3], [0.0, -0.0]):
        assert likeliest_of(np.array(row, dtype=np.float64)) == np.argmax(row)


@pytest.mark.parametrize("going", [[1, 1, 0], [0, 1, 0], [1, 0, 0]])
def test_rows_that_have_ended_are_fed_pads_and_steps_stop_once_all_have(going):
    """The end token is 2, and the pad 3."""
    logits = np.array([[0.0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
    now, chosen = np.zeros((6, 3), np.int64), np.full((2, 3), -1)
    now[GOES_ON], now[POSITION], now[PLACE], now[MADE, 0] = going, 7, [7, 5, 7], 1
    choose_likeliest(logits, now, np.array([2, 3]), chosen)
    expected = np.where(going, [1, 2, 3], 3)
    assert chosen.tolist() == [[-1] * 3, expected.tolist()]
    assert now[TOKEN].tolist() == expected.tolist()
    assert now[GOES_ON].tolist() == [going[0], 0, 0]
    assert (now[POSITION].tolist(), now[PLACE].tolist(), now[MADE, 0]) == ([8] * 3, [8, 6, 8], 2)
    assert now[STOPS, 0] == (not going[0])


def test_newest_tokens_are_seen_unless_they_are_pads_after_rows_have_moved():
    """A row that has ended may go on behind the last position there is."""
    now, visible, y = np.zeros((6, 3), np.int64), np.zeros((3, 5), bool), np.empty((3, 2))
    now[TOKEN], now[POSITION], now[PLACE] = [4, 3, 5], 2, [2, 9, 0]
    visible[0, :2], visible[1, 1], visible[2, 0] = True, True, True
    positions = np.arange(6.0).reshape(3, 2)
    admit(now, np.array([2, 3]), np.array([0, 0, 2]), positions, visible, y)
    assert visible.astype(int).tolist() == [[1, 1, 1, 0, 0], [1, 1, 0, 0, 0], [1, 0, 1, 0, 0]]
    assert y.tolist() == positions[[2, 2, 0]].tolist()
