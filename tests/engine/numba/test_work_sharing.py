"""Products that two threads share: the same numbers, whether a helper comes, leaves, or falls asleep on the way."""

import threading

import numpy as np
import pytest

from npformer.engine.numba import work_sharing
from npformer.engine.numba.linear import few_rows
from npformer.engine.numba.work_sharing import DONE, LOST, PRESENT, SLOTS, TICKET, WANTED, few_rows_by_two, invite


@pytest.fixture
def product(dtype):
    """The arrays of a product, and what is shared; and whether they hold the product now."""
    rng = np.random.default_rng(0)
    x, w, bias = (rng.standard_normal(shape).astype(dtype) for shape in ((2, 300), (300, 401), 401))
    x[0, 50:60] = 0
    y, half, due = np.empty((2, 401), dtype), np.full(2 * 500, np.nan, dtype), np.empty((2, 401), dtype)
    few_rows(x, w, bias, False, due)

    def computed(shared, rows=2):
        y[...] = np.nan
        few_rows_by_two(x[:rows], w, bias, rows == 1, y[:rows], shared, half)
        few_rows(x[:rows], w, bias, rows == 1, due[:rows])
        return np.array_equal(y[:rows], due[:rows])

    computed.half = half
    return computed


def test_it_is_the_product_alone_and_with_help(product):
    shared = np.zeros(SLOTS, np.int64)
    assert product(shared)
    assert shared[TICKET] == 0
    helped = 0
    for _ in range(10_000):
        invite(shared, product.half, None)
        for rows in (1, 2):
            assert product(shared, rows)
            helped += shared[DONE] == shared[TICKET] - 1
        if helped > 10:
            break
    assert helped


def test_a_helper_that_has_not_begun_costs_nothing(product):
    shared = np.zeros(SLOTS, np.int64)
    shared[PRESENT] = 1  # and never looks
    assert product(shared)
    assert shared[LOST] == 0


def test_a_helper_that_falls_asleep_is_given_up_until_it_has_left(product, until, monkeypatch):
    """Whoever takes the half in another thread does not do it: the leader does, and nobody else is invited."""
    shared, over = np.zeros(SLOTS, np.int64), []
    shared[PRESENT] = 1

    def take():
        while not over:
            if shared[TICKET] % 2:
                shared[TICKET] += 1

    sleeper = threading.Thread(target=take)
    sleeper.start()
    try:
        assert until(lambda: product(shared) and shared[LOST])
    finally:
        over.append(True)
        sleeper.join()
    ticket = shared[TICKET]
    assert product(shared)
    assert shared[TICKET] == ticket, "the leader is alone"
    invited = []
    monkeypatch.setattr(work_sharing.helper, "invite", lambda job, shared: invited.append(job))
    invite(shared, product.half, None)
    assert (invited, shared[LOST]) == ([], 1)
    shared[PRESENT] = 0
    invite(shared, product.half, None)
    assert (len(invited), shared[LOST]) == (1, 0)


def test_a_helper_leaves_when_there_is_nothing_to_do(product, until):
    shared = np.zeros(SLOTS, np.int64)
    invite(shared, product.half, None)
    assert until(lambda: shared[PRESENT] == 0)


def test_a_helper_that_is_wanted_elsewhere_does_not_wait(product, until, monkeypatch):
    monkeypatch.setattr(work_sharing, "MOST_LOOKS", 10**15)  # looks: for ever
    one, two = np.zeros(SLOTS, np.int64), np.zeros(SLOTS, np.int64)
    for shared in (one, two):
        invite(shared, product.half, None)
    left = until(lambda: one[PRESENT] == 0)
    present = two[PRESENT]
    two[WANTED] = 1
    assert left
    assert present
