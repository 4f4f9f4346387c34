"""What the tests of the checker share: a matrix product, and gradients of it that are wrong."""

import pytest

from tests.check.functions import normal


def product_forward(a, b):
    return a @ b, (a, b)


def product_backward(dy, cache):
    a, b = cache
    return dy @ b.T, a.T @ dy


@pytest.fixture
def product():
    """The pair of y = a b; square matrices let a transposed or swapped gradient pass for its shape."""
    return product_forward, product_backward


@pytest.fixture
def a():
    return normal(3, 3)


@pytest.fixture
def b():
    return normal(3, 3, seed=1)
