"""The wiring of layers, which no gradient check can see; and that any layer may replace a norm or another part."""

from dataclasses import replace

import numpy as np
import pytest

import npformer as npf
from npformer.backend import Pair
from npformer.check.cases.case import shaken
from npformer.functional import AttentionMask
from npformer.layers import (
    INFERENCE,
    BatchNorm,
    Context,
    DecoderLayer,
    EncoderLayer,
    EncoderStack,
    Layer,
    LayerNorm,
    Parameter,
    RandomKey,
)
from npformer.layers.residual import joins
from tests.check.small_models import MEMORY, X

SIZE = {"d_model": 4, "num_heads": 2, "d_ff": 6}
MASK = AttentionMask(np.array([[True, True, True], [True, True, False]]), causal=True)
MEMORY_MASK = AttentionMask(np.array([[True] * 5, [True, True, False, False, False]]))
KEY = RandomKey(seed=1)
ORDERS = pytest.mark.parametrize("norm_order", ["post", "pre"])
KINDS = pytest.mark.parametrize("kind", [EncoderLayer, DecoderLayer])


class Gain(Layer):
    """y = γ·x: forward, backward, and nothing else. Its cache is a plain array."""

    def __init__(self, d_model, *, backend):
        super().__init__(backend)
        self.gamma = Parameter("gamma", backend.array(np.linspace(0.5, 2, d_model)))

    def forward(self, x, *, context=INFERENCE):
        return x * self.gamma.data, x

    def backward(self, dy, x):
        self.gamma.grad += np.sum(dy * x, axis=(0, 1))
        return dy * self.gamma.data


class Twice(LayerNorm):
    """LayerNorm, and times 2."""

    def forward(self, x, *, context=INFERENCE):
        y, cache = super().forward(x)
        return 2 * y, cache

    def backward(self, dy, cache):
        return super().backward(2 * dy, cache)


class Told(Gain):
    """The same as an attention, a norm and a feed-forward: it notes what it is told beside x."""

    def forward(self, x, *, context=INFERENCE):
        TOLD.append(context)
        return super().forward(x)


TOLD = []


@pytest.fixture
def told():
    TOLD.clear()
    return TOLD


def with_norms(norm, layer):
    """The layer with such norms, and these in order."""
    names = [name for name in ("norm1", "norm2", "norm3") if hasattr(layer, name)]
    for name in names:
        setattr(layer, name, norm(4, backend=layer.backend))
    return layer, [getattr(layer, name) for name in names]


@pytest.mark.parametrize("norm", [LayerNorm, Gain, Twice])
@ORDERS
@KINDS
def test_each_sublayer_reads_the_stream_and_adds_to_it(kind, norm_order, norm, numpy64):
    layer, norms = with_norms(norm, kind(**SIZE, norm_order=norm_order, dropout=0.2, backend=numpy64))
    shaken(layer)
    parts = [lambda h: layer.self_attention(h, context=Context(MASK)), layer.feed_forward]
    inputs, x = [X], X
    if kind is DecoderLayer:
        inputs = [X, MEMORY]
        parts.insert(1, lambda h: layer.cross_attention(h, MEMORY, context=Context(memory_mask=MEMORY_MASK)))
    for f, normed in zip(parts, norms, strict=True):
        x = normed(x + f(x)) if norm_order == "post" else x + f(normed(x))
    np.testing.assert_allclose(layer(*inputs, context=Context(MASK, MEMORY_MASK)), x, rtol=1e-12)
    if norm is not LayerNorm:  # the catalogue's cases are with that
        context = Context(MASK, MEMORY_MASK, KEY)
        npf.gradcheck(layer, *inputs, context=context, elementwise=False).raise_if_failed()


def test_parts_get_the_context_of_their_place_and_norms_that_of_the_layer(told, numpy64):
    layer, (norm1, _) = with_norms(Told, EncoderLayer(**SIZE, backend=numpy64))
    layer.self_attention = layer.feed_forward = norm1
    for key in (KEY, None):
        context = Context(MASK, key=key)
        layer.forward(X, context=context)
        assert told == [context.child("self_attention"), context, context.child("feed_forward"), context]
        told.clear()


def test_which_norms_one_kernel_may_compute_with_the_sum(numpy64):
    class Named(LayerNorm):
        """Another name."""

    norms = [kind(4, backend=numpy64) for kind in (LayerNorm, Named, Gain, BatchNorm, Twice)]
    assert [joins(each) for each in (*norms, None)] == [True, True, False, False, False, False]
    norms[1].backward = norms[4].backward  # a method of its own, on this one
    assert not joins(norms[1])


@ORDERS
def test_sum_and_norm_are_one_operation_for_layer_norm_and_two_for_another(norm_order, numpy64):
    def noting(name, pair):
        return Pair(lambda *inputs: called.append(name) or pair.forward(*inputs), pair.backward)

    called = []
    names = ("post_norm", "add_norm", "residual", "layer_norm")
    ops = replace(numpy64.ops, **{name: noting(name, getattr(numpy64.ops, name)) for name in names})
    layer = EncoderLayer(**SIZE, norm_order=norm_order, backend=replace(numpy64, ops=ops))
    layer(X)
    assert called == (["post_norm"] * 2 if norm_order == "post" else ["layer_norm", "add_norm", "residual"])
    called.clear()
    with_norms(Twice, layer)[0](X)
    apart = ["residual", "layer_norm"]
    assert called == (apart * 2 if norm_order == "post" else ["layer_norm", *apart, "residual"])


@ORDERS
def test_a_plain_layer_stands_for_the_feed_forward_and_the_final_norm(norm_order, numpy64):
    stack = EncoderStack(2, **SIZE, norm_order=norm_order, final_norm=True, dropout=0.2, backend=numpy64)
    for layer in stack.layers:
        layer.feed_forward = Gain(4, backend=numpy64)
    stack.norm = Gain(4, backend=numpy64)
    npf.gradcheck(stack, X, context=Context(key=KEY), elementwise=False).raise_if_failed()
    np.testing.assert_array_equal(stack(X), stack.forward(X)[0])
