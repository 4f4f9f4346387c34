"""Each identity and each invariant fails on something broken: none may pass whatever it is given."""

import math

import pytest

from npformer.check.claims.identities import IDENTITIES
from npformer.check.claims.identities.identity import parts
from npformer.check.claims.invariants import INVARIANTS
from npformer.lab.museum.bugs import bug
from npformer.lab.museum.patch import patched
from tests.check import broken_bookkeeping, broken_networks, broken_operations
from tests.check.broken_networks import dropping
from tests.check.functions import pair

OPERATIONS, INSIDE = broken_operations.BREAKERS, broken_networks.INSIDE
BREAKERS = OPERATIONS | {
    f"{where}: {name}": broken
    for where, table in (
        ("networks", INSIDE),
        ("wiring", broken_networks.WIRING),
        ("bookkeeping", broken_bookkeeping.BREAKERS),
    )
    for name, broken in table.items()
}


def result(claim, name):
    """What an identity or invariant says of something broken."""
    _, make, inputs, options, wrong = BREAKERS[name]
    with patched(bug(wrong).edits if wrong else ()):
        if isinstance(make, tuple):
            return IDENTITIES[claim](make, *inputs, kind=name.split(":")[0])
        return (IDENTITIES | INVARIANTS)[claim](make(), *inputs, **options)


@pytest.mark.parametrize("name", BREAKERS)
def test_what_is_broken_is_caught(name):
    claim = BREAKERS[name].claim
    outcome = result(claim, name)
    assert outcome.fails, str(outcome)
    assert outcome.violation is not None or claim in INVARIANTS, outcome.reason


def test_the_same_pairs_without_a_flaw_pass():
    for name, broken in OPERATIONS.items():
        result = IDENTITIES[broken.claim](pair(name), *broken.inputs)
        assert result.holds, f"{name}: {result}"


def test_every_identity_and_every_invariant_has_a_breaker():
    """One on an operation has a wrong operation, one inside a network has a wrong network."""
    networks = {
        name
        for name, one in IDENTITIES.items()
        if one.applies_to & {"MultiHeadAttention", "Transformer", "EncoderLayer"}
    }
    assert networks <= {broken.claim for broken in INSIDE.values()}
    assert IDENTITIES.keys() - networks <= {broken.claim for broken in OPERATIONS.values()}
    assert INVARIANTS.keys() <= {broken.claim for broken in BREAKERS.values()}


@pytest.mark.parametrize(
    ("name", "holds"),
    [
        ("wiring: divided by the batch", ("linear-backward", "batch-order", "accumulation", "determinism")),
        ("wiring: next token visible, model", ("padding-invariance", "linear-backward", "sequences-alone", "tying")),
        ("wiring: one of two gradients", ("linear-backward", "causality", "ignored-tokens")),
        ("wiring: −1e9, model", ("causality", "linear-backward", "sequences-alone")),
        ("bookkeeping: assigns", ("linear-backward", "no-mutation", "used-cache")),
        ("bookkeeping: stack on self", ("accumulation", "linear-backward", "determinism")),
        ("bookkeeping: gate from the gradient", ("determinism", "batch-order", "reuse", "shape-and-dtype")),
        ("bookkeeping: spoils weight", ("linear-backward", "reuse", "determinism")),
        ("bookkeeping: works twice", ("reuse", "no-mutation", "linear-backward")),
    ],
)
def test_a_check_looks_for_one_thing(name, holds):
    assert not [claim for claim in holds if result(claim, name).fails]


def test_a_violation_says_where_and_both_numbers():
    outcome = result("causality", "wiring: next token visible, model")
    assert "tgt_in[:, " in outcome.violation.where
    assert len(outcome.violation.place) == 3
    assert math.isfinite(outcome.violation.expected)
    assert outcome.violation.expected != outcome.violation.got


def test_a_network_wired_wrongly_has_right_gradients():
    """So the path integral holds where who-sees-whom does not: neither replaces the other."""
    assert result("path-integral", "networks: source padding seen").holds


def test_parts_are_named_as_parameters_are():
    made = dropping()
    names = {name for name, _ in made.named_parameters()}
    prefixes = dict(parts(made))
    assert "decoder.layers.1.cross_attention." in prefixes
    assert all(any(name.startswith(prefix) for prefix in prefixes if prefix) for name in names)
