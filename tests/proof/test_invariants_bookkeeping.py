"""For each invariant of bookkeeping something broken that it catches, and that others do not mind."""

import numpy as np
import pytest

from npformer.backend import get_backend
from npformer.functional import ALL_VISIBLE, AttentionMask
from npformer.layers import Dropout, Layer, LayerNorm, Linear, RandomKey
from npformer.proof.invariants import INVARIANTS

BACKEND = get_backend("numpy", dtype="float64", kernels="plain")
rng = np.random.default_rng(0)
X, MEMORY = rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 5, 4))
HIDDEN = AttentionMask(np.array([[True] * 5, [False] * 5]))


def squared(x):
    return x * x, [x]


def empties_its_cache(dy, cache):
    return 2 * (cache.pop() if cache else 0) * dy


class OwnDice(Dropout):
    """Draws from a generator of its own."""

    def __init__(self):
        super().__init__(0.5, backend=BACKEND)
        self.rng = np.random.default_rng(0)

    def forward(self, x, key=None):
        return super().forward(x, RandomKey(int(self.rng.integers(1 << 30))))


class GateFromGradient(Layer):
    def forward(self, x):
        return np.maximum(x, 0), None

    def backward(self, dy, cache):
        return np.maximum(dy, 0)


class Assigns(Linear):
    def backward(self, dy, cache):
        self.bias.grad[...] = 0
        return super().backward(dy, cache)


class CachesOnSelf(Linear):
    def forward(self, x):
        y, self.cache = super().forward(x)
        return y, None

    def backward(self, dy, cache):
        return super().backward(dy, self.cache)


class StacksOnSelf(Linear):
    """Right as long as the last forward is the first to come back."""

    def __init__(self):
        super().__init__(4, 5, backend=BACKEND)
        self.caches = []

    def forward(self, x):
        y, cache = super().forward(x)
        self.caches.append(cache)
        return y, None

    def backward(self, dy, cache):
        return super().backward(dy, self.caches.pop())


class ReusesItsOutput(Layer):
    """One buffer for all outputs: the second forward overwrites what the first one returned."""

    buffer = np.zeros((2, 3, 4))

    def forward(self, x):
        self.buffer[...] = 2 * x
        return self.buffer, None

    def backward(self, dy, cache):
        return 2 * dy


class WorksTwice(Layer):
    def forward(self, x):
        return x * x, x

    def backward(self, dy, cache):
        return 2 * cache * dy


class Spoils(Layer):
    """Writes into what it is given: "x", "dy", "y", "weight" or "mask"."""

    def __init__(self, what):
        super().__init__(BACKEND)
        self.what, self.norm = what, LayerNorm(4, backend=BACKEND)

    def forward(self, x, mask=ALL_VISIBLE):
        if self.what == "x":
            x *= 2
        if self.what == "weight":
            self.norm.gamma.data[0] = 3.0
        if self.what == "mask":
            mask.key_visible[...] = True
        y = 2 * x
        return y, y

    def backward(self, dy, cache):
        if self.what == "dy":
            dy *= 2
        if self.what == "y":
            cache *= 2
        return 2 * dy


class Casts(Linear):
    def backward(self, dy, cache):
        return super().backward(dy, cache).astype(np.float32)


class Reshapes(Linear):
    def backward(self, dy, cache):
        return super().backward(dy, cache).reshape(-1, 4)


class ReturnsNan(Linear):
    def backward(self, dy, cache):
        return super().backward(dy, cache) * np.nan


class ReturnsTwo(Linear):
    def backward(self, dy, cache):
        return super().backward(dy, cache), dy


BREAKERS = {
    "dice of its own": ("determinism", OwnDice, (X,), {}),
    "gate from the gradient": ("linear-backward", lambda: GateFromGradient(BACKEND), (X,), {}),
    "assigns": ("accumulation", lambda: Assigns(4, 5, backend=BACKEND), (X,), {}),
    "caches on self": ("reuse", lambda: CachesOnSelf(4, 5, backend=BACKEND), (X,), {}),
    "stack on self": ("reuse", StacksOnSelf, (X,), {}),
    "one output buffer": ("reuse", lambda: ReusesItsOutput(BACKEND), (X,), {}),
    "works twice": ("used-cache", lambda: WorksTwice(BACKEND), (X,), {}),
    "pair that empties its cache": ("used-cache", lambda: (squared, empties_its_cache), (X,), {}),
    "spoils x": ("no-mutation", lambda: Spoils("x"), (X,), {}),
    "spoils dy": ("no-mutation", lambda: Spoils("dy"), (X,), {}),
    "spoils y": ("no-mutation", lambda: Spoils("y"), (X,), {}),
    "spoils weight": ("no-mutation", lambda: Spoils("weight"), (X,), {}),
    "spoils mask": ("no-mutation", lambda: Spoils("mask"), (MEMORY,), {"mask": HIDDEN}),
    "float32": ("shape-and-dtype", lambda: Casts(4, 5, backend=BACKEND), (X,), {}),
    "another shape": ("shape-and-dtype", lambda: Reshapes(4, 5, backend=BACKEND), (X,), {}),
    "NaN": ("shape-and-dtype", lambda: ReturnsNan(4, 5, backend=BACKEND), (X,), {}),
    "two gradients for one input": ("shape-and-dtype", lambda: ReturnsTwo(4, 5, backend=BACKEND), (X,), {}),
}


def result(name, broken):
    _, make, inputs, options = BREAKERS[broken]
    return INVARIANTS[name](make(), *inputs, **options)


@pytest.mark.parametrize("broken", BREAKERS)
def test_what_is_broken_is_caught(broken):
    found = result(BREAKERS[broken][0], broken)
    assert found.fails, str(found)


def test_every_invariant_of_bookkeeping_has_a_breaker():
    assert {name for name, *_ in BREAKERS.values()} == set(list(INVARIANTS)[6:])  # the others: breakers


@pytest.mark.parametrize(
    ("broken", "holds"),
    [
        ("assigns", ("linear-backward", "no-mutation", "used-cache")),
        ("stack on self", ("accumulation", "linear-backward", "determinism")),
        ("gate from the gradient", ("determinism", "batch-order", "reuse", "shape-and-dtype")),
        ("spoils weight", ("linear-backward", "reuse", "determinism")),
        ("works twice", ("reuse", "no-mutation", "linear-backward")),
    ],
)
def test_a_check_looks_for_one_thing(broken, holds):
    assert not [name for name in holds if result(name, broken).fails]
