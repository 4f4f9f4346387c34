"""What came out of a forward or a backward, and what a second backward says."""

import re


def parts(y):
    """The arrays, as a tuple, be they several, one or none."""
    return y if isinstance(y, tuple) else (() if y is None else (y,))


def used_cache_text(owner):
    """A pattern for the whole text of the error."""
    return re.escape(
        f"{owner}.backward: expected a fresh cache, got one that went through backward already; "
        "call forward again (its activations were freed as backward ran)"
    )
