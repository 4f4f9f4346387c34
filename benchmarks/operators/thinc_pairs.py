"""The hand-written backwards of thinc: functions of its NumPy backend, in float64, plain and in every regime."""

import numpy as np

from benchmarks.operators.case import with_regimes

OF_X = ("mish", "gelu", "dish", "hard_swish", "hard_swish_mobilenet", "gelu_approx", "relu_k", "hard_sigmoid",
        "hard_tanh", "clipped_linear")  # fmt: skip


def cases():
    """(every case, nothing left out)."""
    from thinc.api import NumpyOps

    ops, rng = NumpyOps(), np.random.default_rng(0)
    x, lengths = rng.normal(size=(7, 6)), np.array([3, 1, 3], dtype="i")

    def of_x(name):
        return lambda x: (getattr(ops, name)(x), (x,)), getattr(ops, f"backprop_{name}"), (x,)

    def of_y(forward, backward):
        def kept(x):
            y = forward(x)
            return y, (x, y)

        return kept, backward, (x,)

    def reduced(name, keeps):
        """keeps: of (what forward returns beside y, lengths), what backward takes."""

        def forward(x, n):
            y = getattr(ops, f"reduce_{name}")(x, n)
            y, which = y if isinstance(y, tuple) else (y, None)
            return y, (which, n)[keeps]

        return forward, getattr(ops, f"backprop_reduce_{name}"), (x, lengths)

    def maxout(x):
        y, which = ops.maxout(x)
        return y, (which, x.shape[2])

    keeps = {"sum": slice(1, 2), "mean": slice(1, 2), "first": slice(1), "last": slice(1), "max": slice(2)}
    #: Name -> forward, which returns y and what backward takes after dy; backward; inputs.
    pairs = {name: of_x(name) for name in OF_X} | {f"reduce_{name}": reduced(name, keeps[name]) for name in keeps}
    pairs |= {
        "swish": of_y(ops.swish, ops.backprop_swish),
        "relu": of_y(ops.relu, lambda dy, x, y: ops.backprop_relu(dy, y)),
        "sigmoid": of_y(ops.sigmoid, lambda dy, x, y: dy * ops.dsigmoid(y)),
        "tanh": of_y(np.tanh, lambda dy, x, y: dy * ops.dtanh(y)),
        "softmax": of_y(ops.softmax, lambda dy, x, y: ops.backprop_softmax(y, dy)),
        "maxout": (maxout, ops.backprop_maxout, (rng.normal(size=(4, 3, 2)),)),
        "seq2col": (lambda x: (ops.seq2col(x, 1), (1,)), ops.backprop_seq2col, (x,)),
    }
    return [case for name, made in pairs.items() for case in with_regimes(name, lambda made=made: pair(*made))], {}


def pair(forward, backward, inputs):
    """(a pair whose functions get contiguous arrays, as they expect them; its inputs)."""

    def contiguous(*arrays):
        return forward(*map(np.ascontiguousarray, arrays))

    return (contiguous, lambda dy, kept: backward(np.array(dy, order="C"), *kept)), inputs
