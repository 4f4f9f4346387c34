"""For each invariant of bookkeeping something broken that it catches, and that others do not mind."""

import numpy as np

from npformer.check.cases.case import shaken
from npformer.functional import ALL_VISIBLE
from npformer.layers import INFERENCE, Context, Dropout, FeedForward, Layer, LayerNorm, Linear, RandomKey
from tests.check.small_models import BACKEND, HIDDEN, MEMORY, X, broken


def squared(x):
    return x * x, [x]


def empties_its_cache(dy, cache):
    return 2 * (cache.pop() if cache else 0) * dy


def feed_forward():
    return shaken(FeedForward(4, 6, backend=BACKEND))


class OwnDice(Dropout):
    """Draws from a generator of its own."""

    def __init__(self):
        super().__init__(0.5, backend=BACKEND)
        self.rng = np.random.default_rng(0)

    def forward(self, x, *, context=INFERENCE):
        return super().forward(x, context=Context(key=RandomKey(int(self.rng.integers(1 << 30)))))


class StacksOnSelf(Linear):
    """Right as long as the last forward is the first to come back."""

    state_names = ("caches",)

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


class Returns(Linear):
    """Its backward returns what a function makes of the right dx, and of dy."""

    def __init__(self, made_of):
        super().__init__(4, 5, backend=BACKEND)
        self.made_of = made_of

    def backward(self, dy, cache):
        return self.made_of(super().backward(dy, cache), dy)


BREAKERS = {
    "dice of its own": broken("determinism", OwnDice, X),
    "gate from the gradient": broken("linear-backward", feed_forward, X, bug="relu-gate-of-gradient"),
    "clips what is large": broken("linear-backward", lambda: Returns(lambda dx, dy: np.clip(dx, -1e3, 1e3)), X),
    "assigns": broken("accumulation", feed_forward, X, bug="gradient-assigned"),
    "caches on self": broken("reuse", feed_forward, X, bug="cache-on-self"),
    "stack on self": broken("reuse", StacksOnSelf, X),
    "one output buffer": broken("reuse", lambda: ReusesItsOutput(BACKEND), X),
    "works twice": broken("used-cache", lambda: Spoils(""), X),
    "pair that empties its cache": broken("used-cache", lambda: (squared, empties_its_cache), X),
    "spoils x": broken("no-mutation", lambda: Spoils("x"), X),
    "spoils dy": broken("no-mutation", lambda: Spoils("dy"), X),
    "spoils y": broken("no-mutation", lambda: Spoils("y"), X),
    "spoils weight": broken("no-mutation", lambda: Spoils("weight"), X),
    "spoils mask": broken("no-mutation", lambda: Spoils("mask"), MEMORY, mask=HIDDEN),
    "float32": broken("shape-and-dtype", lambda: Returns(lambda dx, dy: dx.astype(np.float32)), X),
    "None": broken("shape-and-dtype", lambda: Returns(lambda dx, dy: None), X),
    "NaN": broken("shape-and-dtype", lambda: Returns(lambda dx, dy: dx * np.nan), X),
    "two gradients for one input": broken("shape-and-dtype", lambda: Returns(lambda dx, dy: (dx, dy)), X),
}
