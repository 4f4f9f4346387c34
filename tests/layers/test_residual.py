"""The residual connection takes any norm, in both orders, and uses one kernel for sum and norm where it may."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import npformer as npf
from npformer.backend import Backend, Pair
from npformer.functional import AttentionMask
from npformer.layers import BatchNorm, DecoderLayer, EncoderLayer, EncoderStack, Layer, LayerNorm, Parameter, RandomKey
from npformer.layers.residual import is_own_layer_norm
from npformer.proof.catalogue import shaken

SIZE = {"d_model": 4, "num_heads": 2, "d_ff": 6}
X = np.random.default_rng(0).normal(size=(2, 3, 4))
MEMORY = np.random.default_rng(1).normal(size=(2, 5, 4))
ORDERS = pytest.mark.parametrize("norm_order", ["post", "pre"])
KINDS = pytest.mark.parametrize(("kind", "inputs"), [(EncoderLayer, (X,)), (DecoderLayer, (X, MEMORY))])


class Gain(Layer):
    """y = γ·x: forward, backward, and nothing else. Its cache is a plain array."""

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self.gamma = Parameter("gamma", backend.array(np.linspace(0.5, 2, 4)))

    def forward(self, x: Any) -> Any:
        return x * self.gamma.data, x

    def backward(self, dy: Any, x: Any) -> Any:
        self.gamma.grad += np.sum(dy * x, axis=(0, 1))
        return dy * self.gamma.data


class Mean(Layer):
    """Self-attention that looks at all visible keys alike."""

    def forward(self, x: Any, *, mask: Any, key: Any = None, recorder: Any = None) -> Any:
        return np.broadcast_to(np.mean(x, axis=1, keepdims=True), x.shape), None

    def backward(self, dy: Any, cache: Any) -> Any:
        return np.broadcast_to(np.mean(dy, axis=1, keepdims=True), dy.shape)


def with_norms(layer: Any, norm: type[Any]) -> Any:
    for name in ("norm1", "norm2", "norm3"):
        if hasattr(layer, name):
            setattr(layer, name, norm(layer.backend))
    return layer


def test_a_feed_forward_that_draws_is_handed_its_key(numpy64: Backend) -> None:
    class Keyed(Gain):
        def forward(self, x: Any, key: Any = None) -> Any:
            keys.append(key)
            return super().forward(x)

    keys: list[Any] = []
    layer: Any = EncoderLayer(**SIZE, backend=numpy64)
    layer.feed_forward = Keyed(numpy64)
    layer.forward(X, key=RandomKey(seed=1))
    layer.forward(X)
    assert keys == [RandomKey(seed=1).child("feed_forward"), None]


def test_a_norm_over_the_batch_is_told_which_tokens_count_and_whether_it_trains(numpy64: Backend) -> None:
    class OverBatch(Gain):
        over_batch = True

        def forward(self, x: Any, *, visible: Any, training: bool) -> Any:
            told.append((visible, training))
            return super().forward(x)

    visible, told = np.array([[True, True, False]] * 2), list[Any]()
    for norm_order in ("post", "pre"):
        layer = with_norms(EncoderLayer(**SIZE, norm_order=norm_order, backend=numpy64), OverBatch)
        layer.forward(X, mask=AttentionMask(visible), key=RandomKey(seed=1))
        layer(X, mask=AttentionMask(visible))
    assert [training for _, training in told] == [True, True, False, False] * 2
    assert all(given is visible for given, _ in told)


@ORDERS
@KINDS
def test_a_plain_layer_stands_for_a_norm(norm_order: str, kind: Any, inputs: Any, numpy64: Backend) -> None:
    layer = with_norms(shaken(kind(**SIZE, norm_order=norm_order, dropout=0.2, backend=numpy64)), Gain)
    for key in (None, RandomKey(seed=1)):
        npf.gradcheck(layer, *inputs, key=key).raise_if_failed()
    post, f = norm_order == "post", layer.self_attention
    x = layer.norm1(X + f(X)) if post else X + f(layer.norm1(X))
    h = x if post else layer.norm2(x)
    if kind is DecoderLayer:
        x = x + layer.cross_attention(h, MEMORY)
        x, h = (layer.norm2(x),) * 2 if post else (x, layer.norm3(x))
    y = x + layer.feed_forward(h)
    last = layer.norm3 if kind is DecoderLayer else layer.norm2
    np.testing.assert_allclose(layer(*inputs), last(y) if post else y, rtol=1e-12)


@ORDERS
def test_a_plain_layer_stands_for_the_feed_forward_and_one_that_takes_a_mask_for_attention(
    norm_order: str, numpy64: Backend
) -> None:
    layer: Any = EncoderLayer(**SIZE, norm_order=norm_order, dropout=0.2, backend=numpy64)
    layer.feed_forward, layer.self_attention = Gain(numpy64), Mean(numpy64)
    npf.gradcheck(layer, X, key=RandomKey(seed=1)).raise_if_failed()


def test_a_plain_layer_stands_for_the_final_norm(numpy64: Backend) -> None:
    stack: Any = EncoderStack(2, **SIZE, final_norm=True, backend=numpy64)
    stack.norm = Gain(numpy64)
    npf.gradcheck(stack, X).raise_if_failed()
    np.testing.assert_array_equal(stack(X), stack.forward(X)[0])


class Twice(LayerNorm):
    """LayerNorm, and times 2."""

    def forward(self, x: Any) -> Any:
        y, cache = super().forward(x)
        return 2 * y, cache

    def backward(self, dy: Any, cache: Any) -> Any:
        return super().backward(2 * dy, cache)


def test_which_norms_one_kernel_may_compute_with_the_sum(numpy64: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    class Named(LayerNorm):
        """Another name."""

    norm: Any = LayerNorm(4, backend=numpy64)
    assert is_own_layer_norm(norm)
    assert is_own_layer_norm(Named(4, backend=numpy64))
    others = [None, Gain(numpy64), BatchNorm(4, backend=numpy64), Twice(4, backend=numpy64)]
    assert [is_own_layer_norm(each) for each in others] == [False] * 4
    norm.backward = Twice.backward.__get__(norm)
    assert not is_own_layer_norm(norm)
    monkeypatch.setattr(LayerNorm, "forward", lambda self, x: (x, None))
    assert not is_own_layer_norm(LayerNorm(4, backend=numpy64))


@ORDERS
def test_sum_and_norm_are_one_operation_for_layer_norm_and_two_for_another(norm_order: str, numpy64: Backend) -> None:
    def noting(name: str, pair: Pair) -> Pair:
        def forward(*inputs: Any) -> Any:
            called.append(name)
            return pair.forward(*inputs)

        return Pair(forward, pair.backward)

    called: list[str] = []
    names = ("post_norm", "add_norm", "residual", "layer_norm")
    ops = replace(numpy64.ops, **{name: noting(name, getattr(numpy64.ops, name)) for name in names})
    layer: Any = EncoderLayer(**SIZE, norm_order=norm_order, backend=replace(numpy64, ops=ops))
    layer(X)
    assert called == (["post_norm"] * 2 if norm_order == "post" else ["layer_norm", "add_norm", "residual"])
    called.clear()
    with_norms(layer, lambda backend: Twice(4, backend=backend))(X)  # type: ignore[arg-type]
    apart = ["residual", "layer_norm"]
    assert called == (apart * 2 if norm_order == "post" else ["layer_norm", *apart, "residual"])
    npf.gradcheck(layer, X).raise_if_failed()


def test_the_gradient_of_the_stream_is_a_sum_over_paths(numpy64: Backend) -> None:
    """Pre-LN with sub-layers that hand back nothing: dx = dy, the path that passes all of them by."""
    layer: Any = EncoderLayer(**SIZE, norm_order="pre", backend=numpy64)
    for output in (layer.self_attention.output, layer.feed_forward.down):
        output.weight.data[...] = 0
    y, cache = layer.forward(X)
    np.testing.assert_array_equal(y, X)
    np.testing.assert_array_equal(layer.backward(MEMORY[:, :3], cache), MEMORY[:, :3])
