"""Caches are freed while backward runs, and not kept at all in inference."""

import weakref

import numpy as np
import pytest

from npformer.layers import CacheStack, EncoderStack
from tests.check.functions import normal


def test_for_inference_nothing_is_kept():
    cache = CacheStack(object(), inference=True)
    assert cache.keep(("y", "cache")) == "y"
    assert len(cache) == 0


@pytest.fixture
def live_caches(monkeypatch):
    """For each cache of a layer made, how many are alive then."""
    alive = weakref.WeakSet()
    counts = []

    make = CacheStack.__init__

    def counting(self, *args, **how):
        make(self, *args, **how)
        alive.add(self)
        counts.append(len(alive))

    monkeypatch.setattr(CacheStack, "__init__", counting)
    yield counts
    assert len(alive) == 0, "something outlived the test"


@pytest.mark.parametrize("norm_order", ["post", "pre"])
def test_inference_of_a_stack_holds_no_cache_of_a_finished_layer(numpy64, live_caches, norm_order):
    peaks = []
    for layers in (1, 5):
        stack = EncoderStack(layers, 4, num_heads=2, d_ff=6, norm_order=norm_order, backend=numpy64)
        stack(np.ones((1, 3, 4)))
        peaks.append(max(live_caches))
        live_caches.clear()
    assert peaks[0] == peaks[1]


def test_backward_frees_the_cache_of_a_layer_before_the_layer_below_runs(numpy64, monkeypatch):
    stack = EncoderStack(2, 4, num_heads=2, d_ff=6, backend=numpy64)
    y, cache = stack.forward(normal(1, 3, 4))
    top = weakref.ref(cache._entries[-1])
    freed = []
    backward = stack.layers[0].backward

    def watched(dy, inner):
        freed.append(top() is None)
        return backward(dy, inner)

    monkeypatch.setattr(stack.layers[0], "backward", watched)
    stack.backward(np.ones_like(y), cache)
    assert freed == [True]
