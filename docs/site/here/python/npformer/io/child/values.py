"""Nested values as the page's grader keeps them: copies, of which a learner's code holds none."""

import numpy as np


class Foreign:
    def __init__(self, what):
        self._what = what

    def __str__(self):
        return self._what


def encode(value, top=False):
    """A copy of a nested value; top: a list counts as a tuple."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, dict):
        return {str(key): encode(part) for key, part in value.items()}
    if isinstance(value, tuple) or (top and isinstance(value, list)):
        return tuple([encode(part) for part in value])
    return value if value is None or isinstance(value, (bool, int, float)) else Foreign("a " + type(value).__name__)


def decode(form, gaps=False):
    """The same once more, with gaps between the elements of arrays if gaps."""
    copied = encode(form)
    if not gaps:
        return copied
    if isinstance(copied, np.ndarray) and copied.ndim:
        spread = np.zeros(copied.shape[:-1] + (2 * copied.shape[-1],), copied.dtype)[..., ::2]
        spread[...] = copied
        return spread
    if isinstance(copied, dict):
        return {key: decode(part, gaps) for key, part in copied.items()}
    return tuple([decode(part, gaps) for part in copied]) if isinstance(copied, tuple) else copied


def mapped(change, value):
    """A nested value with other arrays."""
    if isinstance(value, dict):
        return {key: mapped(change, part) for key, part in value.items()}
    if isinstance(value, tuple):
        return tuple([mapped(change, part) for part in value])
    return change(value) if isinstance(value, np.ndarray) else value


def same(a, b):
    """Whether two of them hold the same numbers; NaN is NaN."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.shape == b.shape and bool(np.all((a == b) | (np.isnan(a) & np.isnan(b))))
    if isinstance(a, dict) and isinstance(b, dict):
        return set(a) == set(b) and all([same(a[key], b[key]) for key in a])
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all([same(x, y) for x, y in zip(a, b)])
    return isinstance(a, Foreign) or (type(a) is type(b) and a == b)


def as_tuple(value):
    return value if isinstance(value, tuple) else (value,)


def kind(value):
    """A value in words."""
    if value is None:
        return "None (is a `return` missing?)"
    if isinstance(value, tuple):
        return "a tuple of " + str(len(value))
    if isinstance(value, np.ndarray):
        return "one array " + str(value.shape)
    return "a dict" if isinstance(value, dict) else str(value)
