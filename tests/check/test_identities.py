"""Equations that right gradients keep, on the catalogue's cases; each fails with a mistake.

Each follows from a move of inputs or parameters that does not change the loss: the loss's derivative along it is 0. In
a function, ``x`` holds inputs, parameters and outputs by their names, ``d`` their gradients.
"""

import re
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest

from npformer import functional
from npformer.backend import plain_pair
from npformer.check import catalogue
from npformer.check.invariants.invariant import Probe
from tests.check.small_models import BACKEND, with_ops

IDENTITIES = []


class Identity(NamedTuple):
    sides: object  # (x, d) -> two arrays that are equal
    cases: str  # a pattern of the names of the cases that it is about
    spoilt: tuple  # the operation and the number of its gradient that is wrong in the second test
    inside: str  # in every part that has a parameter of this name


def identity(cases, *spoilt, inside=""):
    return lambda sides: IDENTITIES.append(Identity(sides, cases, spoilt, inside)) or sides


def products(x, d, *names):
    return sum(np.sum(x[name] * d[name]) for name in names)


def transposed(x):
    return np.swapaxes(x, -1, -2)


@identity("layer_norm", "layer_norm", 0)
def a_token_may_be_shifted_before_its_norm(x, d):
    return d["x"].sum(axis=-1), 0


@identity("layer_norm", "layer_norm", 0)
def a_token_is_scaled_before_its_norm(x, d):
    """Along μ + α(x − μ), x̂ moves by ε·r²·x̂ alone: <x − μ, dx> = ε·r²·<y − β, dy>."""
    centred = x["x"] - x["x"].mean(axis=-1, keepdims=True)
    share = x["eps"] / ((centred**2).mean(axis=-1) + x["eps"])
    return (centred * d["x"]).sum(axis=-1), share * ((x["output"] - x["beta"]) * d["output"]).sum(axis=-1)


@identity("(biased_|local_|)attention", "attention", 1)
def all_keys_may_be_shifted(x, d):
    """K + c adds one number to a row of scores: Σ_S dK = 0."""
    return d["k"].sum(axis=-2), 0


@identity("(biased_|local_|)attention", "attention", 0)
def queries_and_keys_exchange_a_matrix(x, d):
    """Q → Q M, K → K M⁻ᵀ: Qᵀ dQ = (Kᵀ dK)ᵀ."""
    return transposed(x["q"]) @ d["q"], transposed(d["k"]) @ x["k"]


@identity("(biased_|local_|linear_|)attention", "attention", 2)
def values_and_outputs_share_a_matrix(x, d):
    """out = P V: Vᵀ dV = outᵀ dout."""
    return transposed(x["v"]) @ d["v"], transposed(x["output"]) @ d["output"]


@identity("(?!.*(rotary|linear))", "attention", 0, inside="query.weight")
def query_and_key_projections_exchange_a_factor(x, d):
    """<W_q, dW_q> + <b_q, db_q> = <W_k, dW_k> + <b_k, db_k>."""
    return products(x, d, "query.weight", "query.bias"), products(x, d, "key.weight", "key.bias")


@identity("(?!.*(rotary|linear))", "attention", 1, inside="query.weight")
def the_bias_of_keys_is_not_seen(x, d):
    return d["key.bias"], 0


@identity("", "attention", 2, inside="query.weight")
def value_and_output_projections_exchange_a_factor(x, d):
    """<W_v, dW_v> + <b_v, db_v> = <W_o, dW_o>."""
    return products(x, d, "value.weight", "value.bias"), products(x, d, "output.weight")


@identity("(?!.*(gelu|twice|two layers))", "feed_forward", 1, inside="up.weight")  # the last two are with GELU
def a_hidden_unit_is_scaled_in_and_out(x, d):
    """ReLU(α·h) = α·ReLU(h) for α > 0: Σ_i W1 dW1 + b1 db1 = Σ_j W2 dW2 for each unit."""
    before = (x["up.weight"] * d["up.weight"]).sum(axis=0) + x["up.bias"] * d["up.bias"]
    return before, (x["down.weight"] * d["down.weight"]).sum(axis=1)


@identity(".*pre", "linear", 1, inside="norm1.gamma")
def a_norm_and_its_readers_exchange_a_factor(x, d):
    """<γ, dγ> + <β, dβ> = Σ <W, dW> over the matrices that read this norm, and nothing else reads it."""
    readers = (f"self_attention.{name}.weight" for name in ("query", "key", "value"))
    return products(x, d, "norm1.gamma", "norm1.beta"), products(x, d, *readers)


def step(case, backend):
    """Tensors and gradients of one forward and backward, by name."""
    probe = Probe(case.build(backend), case.inputs, case.options, backend.device, moved=False)
    run = probe.run()
    return probe.values | probe.tensors | run.outputs, run.gradients | run.upstream


right_step = cache(lambda name: step(BY_NAME[name], BACKEND))
BY_NAME = {case.name: case for case in catalogue()}


def errors(one, x, d):
    """How far the two sides are apart in each part, beside the sizes of all terms."""
    scale = sum(np.sum((1 + np.abs(x[name])) * np.abs(d[name])) for name in d)
    for prefix in (name.removesuffix(one.inside) for name in x if name.endswith(one.inside)) if one.inside else ("",):
        left, right = one.sides(*({name.removeprefix(prefix): value for name, value in t.items()} for t in (x, d)))
        yield np.max(np.abs(left - right)) / scale


EACH = pytest.mark.parametrize("one", IDENTITIES, ids=lambda one: one.sides.__name__)


def concerned(one):
    return [case for name, case in BY_NAME.items() if re.match(rf"({one.cases})\b", name)]


@EACH
def test_it_holds(one):
    found = {case.name: max(errors(one, *right_step(case.name)), default=0) for case in concerned(one)}
    assert found
    assert {name: error for name, error in found.items() if not error <= 1e-13} == {}


@EACH
def test_it_fails_with_a_mistake(one):
    name, number = one.spoilt
    forward, backward = (getattr(functional, f"{name}_{which}") for which in ("forward", "backward"))

    def wrong(dy, cache):
        return tuple(1.01 * g + 0.01 if i == number else g for i, g in enumerate(backward(dy, cache)))

    backend = with_ops(**{name: plain_pair(forward, wrong)})
    assert any(error > 1e-6 for case in concerned(one) for error in errors(one, *step(case, backend)))
