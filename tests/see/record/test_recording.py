"""What a recording can be asked: its residual sums, L elsewhere, backward again; it keeps arrays as they were."""

import numpy as np
import pytest

from npformer.check import gradcheck
from npformer.check.inputs import as_tuple
from npformer.check.oracles import COMPLEX_H
from npformer.layers import Layer
from npformer.see.explain.paths import Gates
from npformer.see.record.calls import Hooks, Moving
from npformer.see.record.models import showcase_model
from npformer.see.record.trace import trace
from tests.see.explain.test_paths import SharedLayer

ORDERS = ("post", "pre")


def recorded(**changes):
    model, inputs, targets, _ = showcase_model(**changes)
    return trace(model, *inputs, targets=targets, lines=False).recording


@pytest.mark.parametrize("norm_order", ORDERS)
def test_the_sums_of_the_residual_stream(norm_order):
    recording = recorded(norm_order=norm_order)
    layers = ("encoder.layers.0.", "decoder.layers.0.")
    expected = [layers[0] + "self_attention", layers[0] + "feed_forward"]
    expected += [layers[1] + name for name in ("self_attention", "cross_attention", "feed_forward")]
    assert [one.name for one in recording.residuals] == expected
    for residual in recording.residuals:
        assert residual.through is not None
        assert np.array_equal(residual.past, residual.into), "without dropout a sum hands on one gradient"


def test_l_with_a_parameter_moved_has_the_gradient_as_its_slope():
    recording = recorded(norm_order="pre")
    assert recording.value() == recording.loss
    rng = np.random.default_rng(0)
    for name in ("src_embedding.weight", "decoder.layers.0.cross_attention.value.weight", "generator.bias"):
        direction = rng.normal(size=recording.checked.tensors[name].shape)
        moved = recording.value({name: recording.checked.tensors[name] + 1j * COMPLEX_H * direction})
        slope, claimed = moved.imag / COMPLEX_H, np.sum(recording.gradients[name] * direction)
        assert abs(slope - claimed) <= 1e-13 * np.sum(np.abs(recording.gradients[name] * direction)), name


@pytest.mark.parametrize("seed", [0, 3])
def test_the_default_upstream_is_the_first_that_gradcheck_draws(seed):
    """So that a number of a trace can be found again in a check."""
    drawn_upstreams = []

    def forward(x):
        return (x * x, 3 * x), x

    def backward(dy, x):
        drawn_upstreams.append(tuple(np.array(part) for part in dy))
        return 2 * x * dy[0] + 3 * dy[1]

    x = np.random.default_rng(1).normal(size=(2, 3))
    gradcheck((forward, backward), x, seed=seed)
    for actual, drawn in zip(
        trace((forward, backward), x, seed=seed).recording.upstream, drawn_upstreams[0], strict=True
    ):
        assert np.array_equal(actual, drawn)


def test_the_second_sum_of_one_name_is_called_so(numpy64):
    """As of a layer that is used twice."""
    recording = trace(SharedLayer(numpy64), np.random.default_rng(0).normal(size=(1, 3, 4)), lines=False).recording
    assert [one.name for one in recording.residuals] == [
        f"layer.{part}{again}" for again in ("", " (2)") for part in ("self_attention", "feed_forward")
    ]


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


def test_arrays_are_kept_as_they_were_when_they_were_passed(numpy64):
    x = np.array([[1.0, 2.0, -3.0]])
    recording = trace(InPlace(numpy64), x, upstream=np.ones((1, 3))).recording
    root, relu = recording.seen
    assert (root.upstream.tolist(), root.gradients.tolist()) == ([[1, 1, 1]], [[2, 2, 0]])
    assert relu.gradients.tolist() == [[1, 1, 0]]


@pytest.mark.parametrize("fixture", ["opened", "pre"])
def test_the_same_again(request, fixture):
    opened = request.getfixturevalue(fixture)
    again = opened.run()
    assert again.keys() == opened.gradients.keys()
    assert all(np.array_equal(again[name], g) for name, g in opened.gradients.items())
    upstreams = [
        (call.upstream, opened.seen[call.number].upstream) for call in opened.live if call.upstream is not None
    ]
    assert len(upstreams) > 30
    for now, recorded in upstreams:
        assert all(np.array_equal(one, other) for one, other in zip(as_tuple(now), as_tuple(recorded), strict=True))


def test_l_with_a_calls_output_moved_has_its_upstream_gradient_as_its_slope(opened):
    rng = np.random.default_rng(0)
    for call in opened.calls[:-1]:
        upstream = opened.seen[call.number].upstream
        direction = rng.normal(size=upstream.shape)
        slope = opened.value({}, Moving(call.number, 0, 1j * COMPLEX_H * direction)).imag / COMPLEX_H
        assert abs(slope - np.sum(upstream * direction)) <= 1e-13 * np.sum(np.abs(upstream * direction)), call.name


class FirstToken(Hooks):
    """Keeps the calls of operations that it sees, and drops all gradients of the loss but the first token's."""

    def __init__(self):
        self.calls = []

    def leaving(self, call, gradients):
        self.calls.append(call)
        if call is not None and call.operation == "cross_entropy":
            kept = np.zeros_like(gradients)
            kept[0, 0] = gradients[0, 0]
            return kept
        return gradients


def test_a_watch_sees_the_recorded_calls_and_may_change_what_they_hand_on(opened):
    hooks = FirstToken()
    again = opened.run(hooks)
    assert [call for call in hooks.calls if call.operation] == opened.backward_order
    dlogits = np.zeros_like(opened.seen[0].upstream)
    dlogits[0, 0] = opened.seen[0].upstream[0, 0]
    expected = opened.run(Gates({}, {0: dlogits}))
    assert all(np.array_equal(again[name], g) for name, g in expected.items())
    assert not np.array_equal(again["generator.bias"], opened.gradients["generator.bias"])
