"""Each identity and each invariant fails on something broken: none may pass whatever it is given."""

import math

import numpy as np
import pytest

from npformer import functional as F  # noqa: N812
from npformer.proof.identities import IDENTITIES
from npformer.proof.identities.identity import parts
from npformer.proof.invariants import INVARIANTS
from tests.proof import broken_bookkeeping, broken_networks, broken_operations, broken_wiring
from tests.proof.broken_networks import KEY, model
from tests.proof.broken_operations import DRAW, SEEN, K, Q, V, X, flawed, pair
from tests.proof.small_models import SRC, TGT, UnmaskedMemory

OPERATIONS, INSIDE = broken_operations.BREAKERS, broken_networks.BREAKERS
BREAKERS = OPERATIONS | {
    f"{where}: {name}": broken
    for where, table in (
        ("networks", INSIDE),
        ("wiring", broken_wiring.BREAKERS),
        ("bookkeeping", broken_bookkeeping.BREAKERS),
    )
    for name, broken in table.items()
}


def result(claim, name):
    """What an identity or invariant says of something broken."""
    _, target, inputs, options = BREAKERS[name]
    if isinstance(target, tuple):
        return IDENTITIES[claim](target, *inputs, kind=name.split(":")[0])
    return (IDENTITIES | INVARIANTS)[claim](target(), *inputs, **options)


@pytest.mark.parametrize("name", BREAKERS)
def test_what_is_broken_is_caught(name):
    claim = BREAKERS[name].claim
    found = result(claim, name)
    assert found.fails, str(found)
    assert found.violation is not None or claim in INVARIANTS, found.reason


def test_the_same_pairs_without_a_flaw_pass():
    for name, (claim, _, inputs, _) in OPERATIONS.items():
        operation = name.split(":")[0]
        found = IDENTITIES[claim](pair(operation, getattr(F, f"{operation}_backward")), *inputs)
        assert found.holds, f"{name}: {found}"
    assert IDENTITIES["attention-query-key"](pair("attention", flawed("")), Q, K, V, SEEN, DRAW).holds


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


@pytest.mark.parametrize(
    "name", ["layer_norm: γ outside", "softmax: over the batch", "residual: path cut", "attention: scale twice"]
)
def test_the_path_integral_catches_them_too(name):
    assert result("path-integral", name).fails


def test_a_mask_drawn_anew_in_backward_does_not_hold():
    own = np.random.default_rng(0)

    def redrawn(dy, cache):
        return (dy * (own.random(dy.shape) > 0.3) / 0.7,)

    for claim in ("gate", "path-integral", "adjoint"):
        assert IDENTITIES[claim](pair("dropout", redrawn), X, DRAW).fails


def test_a_violation_says_where_and_both_numbers():
    found = result("causality", "wiring: next token visible, model")
    assert "tgt_in[:, " in found.violation.where
    assert len(found.violation.place) == 3
    assert math.isfinite(found.violation.expected)
    assert found.violation.expected != found.violation.got


def test_a_network_wired_wrongly_has_right_gradients():
    """So the path integral holds where who-sees-whom does not: neither replaces the other."""
    assert IDENTITIES["path-integral"](model(UnmaskedMemory), SRC, TGT, key=KEY).holds


def test_parts_are_named_as_parameters_are():
    made = model()
    names = {name for name, _ in made.named_parameters()}
    prefixes = dict(parts(made))
    assert "decoder.layers.1.cross_attention." in prefixes
    assert all(any(name.startswith(prefix) for prefix in prefixes if prefix) for name in names)
