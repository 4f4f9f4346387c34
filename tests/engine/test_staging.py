"""Inputs of a captured function: what is no number, nor an array of them, is refused."""

import numpy as np
import pytest

from npformer.engine.staging import flattened
from npformer.errors import ConfigError


@pytest.mark.parametrize(
    ("leaf", "got"),
    [(True, "the truth value True"), (np.False_, "the truth value False"), ({}, "dict"), (None, "None")],
)
def test_what_is_no_number_is_refused(leaf, got):
    with pytest.raises(ConfigError, match=f"expected numbers, arrays, slices, lists or tuples, got {got}"):
        flattened([leaf], "float32")
