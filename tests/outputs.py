"""What came out of a forward or a backward, what a second backward says, and what has to stay as it is."""

import re
from contextlib import contextmanager

import numpy as np


@contextmanager
def unchanged(arena, *arrays):
    """Within this context neither the values of an arena nor these arrays change."""
    before = [np.array(each) for each in (arena.values, *arrays)]
    yield
    assert all(map(np.array_equal, (arena.values, *arrays), before))


def parts(y):
    """The arrays, as a tuple, be they several, one or none."""
    return y if isinstance(y, tuple) else (() if y is None else (y,))


def used_cache_text(owner):
    """A pattern for the whole text of the error."""
    return re.escape(
        f"{owner}.backward: expected a fresh cache, got one that went through backward already; "
        "call forward again (its activations were freed as backward ran)"
    )
