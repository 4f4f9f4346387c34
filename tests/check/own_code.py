"""Code as its users write it, which npformer's tools are to check, trace and explain; and how tests look at it."""

import inspect
import linecache
from dataclasses import replace

import numpy as np

from npformer.backend import Pair
from npformer.check import gradcheck
from npformer.layers import Layer, Linear, Parameter


class Box:
    """A stranger's parameter."""

    def __init__(self, data):
        self.data, self.grad = data, np.zeros_like(data)


class Gate:
    """A stranger's layer, y = sin(w·x) + c·x², derived from nothing."""

    backend = "my own"
    name = "my gate"

    def __init__(self, factor=1.0, dtype="float64"):
        rng = np.random.default_rng(1)
        self.w, self.c = Box(rng.normal(size=4).astype(dtype)), Box(rng.normal(size=4).astype(dtype))
        self.factor = factor

    def named_parameters(self):
        yield from (("w", self.w), ("inner.c", self.c))

    def forward(self, x):
        return np.sin(self.w.data * x) + self.c.data * x * x, x

    def backward(self, dy, x):
        inner = dy * np.cos(self.w.data * x)
        self.w.grad += (inner * x).sum(axis=(0, 1))
        self.c.grad = self.c.grad + self.factor * (dy * x * x).sum(axis=(0, 1))
        return inner * self.w.data + 2 * dy * self.c.data * x


class Dense:
    """W and b, with dW and db that backward makes."""

    factor = 1.0

    def __init__(self, inputs=3, outputs=4):
        rng = np.random.default_rng([inputs, outputs])
        self.W, self.b = rng.normal(size=(inputs, outputs)).astype("float32"), np.zeros(outputs)

    def forward(self, x):
        self.x = x
        return x @ self.W + self.b

    def backward(self, dy):
        self.dW, self.db = self.factor * self.x.T @ dy, dy.sum(0)
        return dy @ self.W.T


class Tanh:
    def forward(self, x):
        self.y = np.tanh(x)
        return self.y

    def backward(self, dy):
        return dy * (1 - self.y**2)


class Untransposed(Dense):
    """Its dx is that of another matrix."""

    def backward(self, dy):
        super().backward(dy)
        return dy @ self.W


class Plus(Tanh):
    """tanh with a wrong sign in its backward."""

    def backward(self, dy):
        return dy * (1 + self.y**2)


class Network:
    """Layers in a list, and a list of all parameters, which holds the layers' own arrays."""

    def __init__(self, *layers):
        self.layers = list(layers)
        self.params = [layer.W for layer in self.layers if isinstance(layer, Dense)]
        self.grads = []

    def forward(self, x):
        for layer in self.layers:
            x = layer.forward(x)
        return x

    def backward(self, dy):
        for layer in reversed(self.layers):
            dy = layer.backward(dy)
        return dy


class Scaled(Layer):
    """A user's layer of npformer's: it adds to its gradient itself, without an operation, in two places."""

    def __init__(self, backend):
        super().__init__(backend)
        self.inner = Linear(3, 3, backend=backend)
        self.scale = Parameter("scale", backend.array(np.array([2.0, 3.0, 4.0])))

    def forward(self, x):
        h, inner = self.inner.forward(x * self.scale.data)
        return h * self.scale.data, (x, h, inner)

    def backward(self, dy, cache):
        x, h, inner = cache
        self.scale.grad += (dy * h).sum(axis=0)
        dx = self.inner.backward(dy * self.scale.data, inner)
        self.scale.grad += (dx * x).sum(axis=0)
        return dx * self.scale.data


class Passing(Layer):
    """Its cache is the operation's own."""

    def __init__(self, backend):
        super().__init__(backend)
        self.inner = Linear(3, 3, backend=backend)

    def forward(self, x):
        return self.ops.linear.forward(x, self.inner.weight.data, self.inner.bias.data)

    def backward(self, dy, cache):
        return self.ops.linear.backward(dy, cache, into=(self.inner.weight.grad, self.inner.bias.grad))


def spoil(layer, op):
    """Give this one layer a pair whose first gradient is 0.1 % too large."""
    forward, backward = getattr(layer.ops, op)

    def wrong(dy, cache, into=()):
        grads = backward(dy, cache, into=into)
        return (1.001 * grads[0], *grads[1:]) if isinstance(grads, tuple) else 1.001 * grads

    layer.backend = replace(layer.backend, ops=replace(layer.backend.ops, **{op: Pair(forward, wrong)}))


def expect_right(target, *inputs, rows, **options):
    """A check finds nothing wrong, and has these rows."""
    report = gradcheck(target, *inputs, **options)
    assert report.ok, str(report)
    assert [row.tensor for row in report.rows] == rows
    return report


def changed(function, old, new):
    """The function with other text, in a file of its own."""
    text = inspect.getsource(function)
    assert text.count(old) == 1
    file, text = f"<changed {old}>", text.replace(old, new)
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names = dict(function.__globals__)
    exec(compile(text, file, "exec"), names)
    return names[function.__name__]


def line_of(function, text):
    """The line of its file at which a function has a text."""
    lines, first = inspect.getsourcelines(function)
    return first + next(i for i, line in enumerate(lines) if text in line)
