"""What a recording can be asked: a backward again with other gradients, L elsewhere, and the slope of each call."""

from __future__ import annotations

import numpy as np
import pytest

from npformer.backend import get_backend
from npformer.errors import ConfigError
from npformer.layers import Layer
from npformer.proof.inputs import as_tuple
from npformer.proof.listening import Call, Watch
from npformer.proof.oracles import COMPLEX_H
from npformer.proof.record import record
from npformer.proof.showcase import showcase_model

ORDERS = ("post", "pre")


def recorded(**changes):
    model, inputs, targets, _ = showcase_model(**changes)
    return record(model, *inputs, targets=targets, ignore_index=0, lines=False)


@pytest.mark.parametrize("norm_order", ORDERS)
def test_the_same_again(norm_order):
    found = recorded(norm_order=norm_order)
    again = found.again()
    assert again.gradients.keys() == found.gradients.keys()
    assert all(np.array_equal(again.gradients[name], g) for name, g in found.gradients.items())
    for number, upstream in again.upstreams.items():
        for one, other in zip(as_tuple(upstream), as_tuple(found.seen[number].upstream), strict=True):
            assert np.array_equal(one, other)


@pytest.mark.parametrize("norm_order", ORDERS)
def test_the_two_ways_at_a_sum_add_up_to_the_gradient(norm_order):
    found = recorded(norm_order=norm_order)
    layers = ("encoder.layers.0.", "decoder.layers.0.")
    expected = [layers[0] + "self_attention", layers[0] + "feed_forward"]
    expected += [layers[1] + name for name in ("self_attention", "cross_attention", "feed_forward")]
    assert [one.name for one in found.residuals] == expected
    for residual in found.residuals:
        assert residual.through is not None
        assert np.array_equal(residual.past, residual.into), "without dropout a sum hands on one gradient"
        past = found.again(shares={residual.name: (1, 0)}).gradients
        into = found.again(shares={residual.name: (0, 1)}).gradients
        both = {name: past[name] + into[name] - g for name, g in found.gradients.items()}
        own = [name for name in found.gradients if name.startswith(residual.name)]
        assert own
        assert all(not past[name].any() and into[name].any() for name in own if not name.endswith("key.bias"))
        above = found.again(shares={residual.name: (0, 0)}).gradients
        assert any(np.abs(above[name] - g).max() > 1e-3 for name, g in found.gradients.items())
        for name, rest in both.items():
            assert np.allclose(rest, above[name], rtol=0, atol=1e-15 * 20), name


def test_a_share_of_an_unknown_sum_is_refused():
    with pytest.raises(ConfigError, match=r"expected names of residuals .*, got decoder"):
        recorded().again(shares={"decoder": (1, 0)})


def test_backward_is_linear_in_the_upstream_gradient():
    found = recorded()
    dlogits = found.seen[0].upstream
    parts = [np.zeros_like(dlogits), np.zeros_like(dlogits)]
    parts[0][:, :2], parts[1][:, 2:] = dlogits[:, :2], dlogits[:, 2:]
    one, other = (found.again(part).gradients for part in parts)
    for name, gradient in found.gradients.items():
        assert np.allclose(one[name] + other[name], gradient, rtol=0, atol=1e-15), name


def test_l_with_a_parameter_moved_has_the_gradient_as_its_slope():
    found = recorded(norm_order="pre")
    assert found.value() == found.loss
    rng = np.random.default_rng(0)
    for name in ("src_embedding.weight", "decoder.layers.0.cross_attention.value.weight", "generator.bias"):
        direction = rng.normal(size=found.values[name].shape)
        moved = found.value({name: found.values[name] + 1j * COMPLEX_H * direction})
        slope, claimed = moved.imag / COMPLEX_H, np.sum(found.gradients[name] * direction)
        assert abs(slope - claimed) <= 1e-13 * np.sum(np.abs(found.gradients[name] * direction)), name


def test_l_with_a_calls_output_moved_has_its_upstream_gradient_as_its_slope():
    found = recorded()
    rng = np.random.default_rng(0)
    for call in found.calls[:-1]:
        upstream = found.seen[call.number].upstream
        direction = rng.normal(size=upstream.shape)
        slope = found.moved(call.number, 0, direction).imag / COMPLEX_H
        assert abs(slope - np.sum(upstream * direction)) <= 1e-13 * np.sum(np.abs(upstream * direction)), call.name


class Seeing(Watch):
    """Keeps the calls that it sees, and drops the gradient of all tokens but the first of the first row."""

    def __init__(self):
        self.calls: list[Call | None] = []

    def inputs(self, call, inputs):
        self.calls.append(call)
        return inputs

    def leaving(self, call, dy, gradients, into):
        if call is not None and call.operation == "cross_entropy":
            kept = np.zeros_like(gradients)
            kept[0, 0] = gradients[0, 0]
            return kept
        return gradients


def test_a_watch_sees_the_recorded_calls_and_may_change_what_they_hand_on():
    found = recorded()
    watch = Seeing()
    again = found.again(watch=watch)
    assert all(one is other for one, other in zip(watch.calls, found.calls, strict=True))
    dlogits = np.zeros_like(found.seen[0].upstream)
    dlogits[0, 0] = found.seen[0].upstream[0, 0]
    expected = found.again(dlogits).gradients
    assert all(np.array_equal(again.gradients[name], g) for name, g in expected.items())
    assert not np.array_equal(again.gradients["generator.bias"], found.gradients["generator.bias"])


class InPlace(Layer):
    """A layer whose backward writes into what it was given."""

    def forward(self, x):
        y, cache = self.ops.relu.forward(x)
        return y, cache

    def backward(self, dy, cache):
        dx = self.ops.relu.backward(dy, cache)
        dx *= 2
        dy *= 0
        return dx


def test_arrays_are_kept_as_they_were_when_they_were_passed():
    x = np.array([[1.0, 2.0, -3.0]])
    found = record(InPlace(get_backend("numpy", dtype="float64", kernels="plain")), x, upstream=np.ones((1, 3)))
    root, relu = found.seen
    assert (root.upstream.tolist(), root.gradients.tolist()) == ([[1, 1, 1]], [[2, 2, 0]])
    assert relu.gradients.tolist() == [[1, 1, 0]]
