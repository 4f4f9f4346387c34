"""Identities hold over the whole catalogue, and each says what it claims, of what, and why."""

from dataclasses import fields
from functools import cache

import numpy as np
import pytest

from npformer import functional as F  # noqa: N812
from npformer.backend import Ops, get_backend
from npformer.errors import ShapeError
from npformer.layers import FeedForward, LayerNorm, Linear
from npformer.proof import catalogue
from npformer.proof.identities import IDENTITIES, prove
from npformer.proof.invariants.invariant import name_of

CASES = catalogue()
X = np.random.default_rng(0).normal(size=(2, 3, 4))


@cache
def backend64():
    """NumPy with its fastest kernels; inside of tests, since they may have to be compiled."""
    return get_backend("numpy", dtype="float64")


def proven(case, backend):
    return prove(case.build(backend), *case.inputs, name=case.name, device=backend.device, **case.options)


@cache
def proven_before(name):
    """The same of a case of the catalogue on NumPy, once for all tests."""
    (case,) = (case for case in CASES if case.name == name)
    return proven(case, backend64())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_identity_holds_on_the_catalogue(case):
    report = proven_before(case.name)
    assert report.ok, str(report)
    assert report["path-integral"].holds


def test_every_identity_holds_somewhere():
    chosen = [case for case in CASES if case.group != "model" or "learned" in case.name]
    held = {row.name for case in chosen for row in proven_before(case.name).rows if row.holds}
    assert held == set(IDENTITIES)


@pytest.mark.parametrize("name", ["attention: causal and padding", "add_norm: dropout", "DecoderLayer: pre, gelu"])
def test_they_run_on_a_device_that_is_not_the_host(name, strict64):
    (case,) = (case for case in CASES if case.name == name)
    report = proven(case, strict64)
    assert report.ok, str(report)


@pytest.mark.parametrize("name", IDENTITIES)
def test_each_has_a_meaning_and_a_derivation(name):
    one = IDENTITIES[name]
    assert one.name == name
    assert 10 < len(one.meaning) <= 100
    assert len(one.derivation.split()) > 10


def test_the_text_fits_80_columns():
    lines = str(proven(CASES[-1], backend64())).splitlines()
    assert max(map(len, lines)) <= 80
    assert "who-sees-whom        holds" in "\n".join(lines)


def test_a_identity_about_something_else_does_not_apply():
    found = IDENTITIES["softmax-rows"](LayerNorm(4, backend=backend64()), X)
    assert not found.applies
    assert found.reason == "it is about softmax"


def test_a_claim_about_zeros_proves_nothing():
    layer = FeedForward(4, 6, backend=backend64())
    layer.up.bias.data[...] = -100.0  # every gate is shut
    found = IDENTITIES["relu-units"](layer, X)
    assert not found.applies
    assert "prove nothing" in found.reason


def test_kind_names_a_pair_whose_forward_does_not():
    def mine(x):
        y = np.exp(x - x.max(axis=-1, keepdims=True))
        y /= y.sum(axis=-1, keepdims=True)
        return y, y

    def mine_backward(dy, y):
        return y * (dy - np.sum(dy * y, axis=-1, keepdims=True))

    report = prove((mine, mine_backward), X, kind="softmax")
    assert report.name == "softmax"
    assert [row.name for row in report.rows] == ["softmax-rows", "softmax-sum", "softmax-logarithm", "path-integral"]
    assert report.ok, str(report)
    assert [row.name for row in prove((mine, mine_backward), X).rows] == ["path-integral"]


def test_a_wrong_gradient_may_keep_an_identity_but_not_the_path_integral():
    def doubled(dy, cache):
        return (2 * F.softmax_backward(dy, cache)[0],)

    report = prove((F.softmax_forward, doubled), X)
    assert report["softmax-rows"].holds
    assert not report["path-integral"].holds


def test_the_adjoint_of_attention_looks_at_v_alone():
    def wrong_in(which):
        def backward(dout, cache):
            gradients = F.attention_backward(dout, cache)
            return tuple(2 * g if name == which else g for name, g in zip("qkv", gradients, strict=True))

        return prove((F.attention_forward, backward), *np.random.default_rng(0).normal(size=(3, 2, 2, 4, 3)))

    for which, seen in (("q", False), ("k", False), ("v", True)):
        report = wrong_in(which)
        assert report["adjoint"].holds is not seen
        assert not report["path-integral"].holds


def test_subclasses_are_what_their_bases_are():
    class Mine(Linear):
        pass

    assert prove(Mine(4, 5, backend=backend64()), X)["linear-exchange"].holds


def test_nothing_of_the_target_changes():
    layer = Linear(4, 5, backend=get_backend("numpy", dtype="float32"))
    layer.weight.grad[...] = 3.0
    data, grad, before = layer.weight.data, layer.weight.grad, layer.weight.data.copy()
    assert prove(layer, X).ok
    assert layer.weight.data is data
    assert layer.weight.grad is grad
    assert np.array_equal(data, before)
    assert np.all(grad == 3.0)


def test_inputs_that_do_not_fit_are_the_callers_error():
    with pytest.raises(ShapeError, match="C_in=4"):
        prove(Linear(4, 5, backend=backend64()), X[..., :3])


def test_a_gradient_that_raises_does_not_hold():
    def broken(dy, cache):
        raise RuntimeError("no derivative today")

    found = IDENTITIES["gate"]((F.relu_forward, broken), X)
    assert found.fails
    assert "no derivative today" in found.reason


@pytest.mark.parametrize("op", [field.name for field in fields(Ops)])
def test_a_pair_is_known_by_the_name_of_its_operation(op, any64):
    """In every table: identities are about pairs by their names, and pass over one that has another."""
    assert name_of(getattr(any64.ops, op)) == op
