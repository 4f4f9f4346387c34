"""The shared fixture of the operations' tests: a seeded generator."""

import numpy as np
import pytest


@pytest.fixture
def rng():
    """The same random numbers in every test."""
    return np.random.default_rng(12345)
