"""What a recording can be asked: its residual sums, and L elsewhere; and that it keeps arrays as they were."""

import numpy as np
import pytest

from npformer.layers import Layer
from npformer.proof.oracles import COMPLEX_H
from npformer.proof.recording import record
from npformer.proof.showcase import showcase_model

ORDERS = ("post", "pre")


def recorded(**changes):
    model, inputs, targets, _ = showcase_model(**changes)
    return record(model, *inputs, targets=targets, ignore_index=0, lines=False)


@pytest.mark.parametrize("norm_order", ORDERS)
def test_the_sums_of_the_residual_stream(norm_order):
    found = recorded(norm_order=norm_order)
    layers = ("encoder.layers.0.", "decoder.layers.0.")
    expected = [layers[0] + "self_attention", layers[0] + "feed_forward"]
    expected += [layers[1] + name for name in ("self_attention", "cross_attention", "feed_forward")]
    assert [one.name for one in found.residuals] == expected
    for residual in found.residuals:
        assert residual.through is not None
        assert np.array_equal(residual.past, residual.into), "without dropout a sum hands on one gradient"


def test_l_with_a_parameter_moved_has_the_gradient_as_its_slope():
    found = recorded(norm_order="pre")
    assert found.value() == found.loss
    rng = np.random.default_rng(0)
    for name in ("src_embedding.weight", "decoder.layers.0.cross_attention.value.weight", "generator.bias"):
        direction = rng.normal(size=found.checked.tensors[name].shape)
        moved = found.value({name: found.checked.tensors[name] + 1j * COMPLEX_H * direction})
        slope, claimed = moved.imag / COMPLEX_H, np.sum(found.gradients[name] * direction)
        assert abs(slope - claimed) <= 1e-13 * np.sum(np.abs(found.gradients[name] * direction)), name


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
    found = record(InPlace(numpy64), x, upstream=np.ones((1, 3)))
    root, relu = found.seen
    assert (root.upstream.tolist(), root.gradients.tolist()) == ([[1, 1, 1]], [[2, 2, 0]])
    assert relu.gradients.tolist() == [[1, 1, 0]]
