"""Which models may be recorded: those whose classes are all declared static, with their own methods."""

from functools import wraps
from types import MethodType

import numpy as np
import pytest

from npformer import greedy, layers
from npformer.backend import get_backend
from npformer.engine.static import is_static
from npformer.layers import INFERENCE, FeedForward, Layer, ScaledDotProduct
from npformer.layers.owner import Owner
from npformer.models import Decoder, Encoder, Transformer

KINDS = [kind for kind in (getattr(layers, name) for name in layers.__all__) if hasattr(kind, "forward")]
OWN_FORWARD = FeedForward.forward


@pytest.mark.parametrize("kind", [Decoder, Encoder, Transformer, *KINDS])
def test_npformers_own_classes_say_so(kind):
    is_part = kind is not Layer and issubclass(kind, Owner)
    assert ("static" in vars(kind)) == is_part


class Silent(FeedForward):
    pass


class Declared(FeedForward):
    static = True


class Foreign:
    """A mechanism that counts no changes, whatever it says."""

    static = True
    forward = ScaledDotProduct.forward


def less(self, x, *, context=INFERENCE):
    y, cache = OWN_FORWARD(self, x, context=context)
    return y - 3 * np.sign(x), cache


WRAPPED = wraps(OWN_FORWARD)(lambda *args, **how: less(*args, **how))


@pytest.mark.parametrize(("statement", "expected"), [
    ("pass", True), ("inner.__class__ = Declared", True), ("inner.__class__ = Silent", False),
    ("inner.forward = MethodType(less, inner)", False), ("inner.forward = less; del inner.forward", True),
    ("FeedForward.forward = less", False), ("FeedForward.forward = WRAPPED", False),
    ("FeedForward.forward = less; FeedForward.forward = OWN_FORWARD", True),
    ("layer.self_attention.mechanism = Foreign()", False),
    ("model.__class__ = type('Mine', (Transformer,), {})", False),
    ("model.step = model.step", False), ("inner.static = False", True),
    ("inner.__class__ = type('Mine', (FeedForward,), {'static': True, '__call__': np.copy})", False),
])  # fmt: skip
def test_a_model_is_static_if_all_of_it_is(statement, expected, small_model, monkeypatch):
    model = small_model(get_backend("numpy", kernels="plain"))
    layer = model.decoder.layers[0]
    monkeypatch.setattr(FeedForward, "forward", OWN_FORWARD)
    exec(statement, globals() | {"model": model, "layer": layer, "inner": layer.feed_forward})
    assert is_static(model) is expected


@pytest.mark.parametrize("place", ["decoder", "encoder", "class"])
def test_recorded_decoding_obeys_a_method_of_ones_own(place, small_model, batch, monkeypatch):
    pytest.importorskip("numba")
    """Set on a part at any time, or on a class before the model is compiled."""
    texts = []
    for kernels in ("plain", "numba"):
        model, other = (small_model(get_backend("numpy", dtype="float64", kernels=kernels)) for _ in range(2))
        before = greedy(model, batch[0], 6)
        with monkeypatch.context() as patch:
            if place == "class":
                patch.setattr(FeedForward, "forward", less)
                model = other
            else:
                inner = getattr(model, place).layers[0].feed_forward
                inner.forward = MethodType(less, inner)
            texts.append(greedy(model, batch[0], 6))
    assert np.array_equal(*texts)
    assert not np.array_equal(before, texts[1])
