"""Each invariant fails on something broken: none may pass whatever it is given."""

import re

import pytest

from npformer.check.invariants import INVARIANTS
from npformer.lab.museum.bugs import bug
from npformer.lab.museum.patch import patched
from tests.check import broken_bookkeeping, broken_networks

BREAKERS = {
    f"{where}: {name}": broken
    for where, table in (("wiring", broken_networks.WIRING), ("bookkeeping", broken_bookkeeping.BREAKERS))
    for name, broken in table.items()
}


def result(claim, name):
    """What an invariant says of something broken."""
    _, make, inputs, options, wrong = BREAKERS[name]
    with patched(bug(wrong).edits if wrong else ()):
        return INVARIANTS[claim](make(), *inputs, **options)


@pytest.mark.parametrize("name", BREAKERS)
def test_what_is_broken_is_caught(name):
    claim = BREAKERS[name].claim
    outcome = result(claim, name)
    assert outcome.fails, str(outcome)


def test_every_invariant_has_a_breaker():
    assert INVARIANTS.keys() == {broken.claim for broken in BREAKERS.values()}


@pytest.mark.parametrize(
    ("name", "holds"),
    [
        ("wiring: divided by the batch", ("linear-backward", "batch-order", "accumulation", "determinism")),
        ("wiring: next token visible, model", ("padding-invariance", "linear-backward", "sequences-alone", "tying")),
        ("bookkeeping: assigns", ("linear-backward", "no-mutation", "used-cache")),
        ("bookkeeping: stack on self", ("accumulation", "linear-backward", "determinism")),
        ("bookkeeping: gate from the gradient", ("determinism", "batch-order", "reuse", "shape-and-dtype")),
    ],
)
def test_a_check_looks_for_one_thing(name, holds):
    assert not [claim for claim in holds if result(claim, name).fails]


def test_a_violation_says_where_and_both_numbers():
    reason = result("causality", "wiring: next token visible, model").reason
    expected, got = re.match(
        r"output, tgt_in\[:, \d:\] changed\[\d, \d, \d\]: expected (\S+), got (\S+)", reason
    ).groups()
    assert float(expected) != float(got)
