"""The hand-written backwards of thinc: functions of its NumPy backend, in float64, plain and in every regime."""

import numpy as np

from benchmarks.operators.case import Case


def _activations(ops):
    """Name -> (forward, backward of (dy, x, y))."""
    of_x = ("mish", "gelu", "dish", "hard_swish", "hard_swish_mobilenet", "gelu_approx")
    pairs = {name: (getattr(ops, name), lambda dy, x, y, n=name: getattr(ops, f"backprop_{n}")(dy, x)) for name in of_x}
    pairs["swish"] = ops.swish, lambda dy, x, y: ops.backprop_swish(dy, x, y)
    pairs["relu"] = ops.relu, lambda dy, x, y: ops.backprop_relu(dy, y)
    pairs["sigmoid"] = ops.sigmoid, lambda dy, x, y: dy * ops.dsigmoid(y)
    pairs["tanh"] = np.tanh, lambda dy, x, y: dy * ops.dtanh(y)
    for name in ("relu_k", "hard_sigmoid", "hard_tanh", "clipped_linear"):
        pairs[name] = getattr(ops, name), lambda dy, x, y, n=name: getattr(ops, f"backprop_{n}")(dy, x)
    pairs["softmax"] = ops.softmax, lambda dy, x, y: ops.backprop_softmax(y, dy)
    return pairs


def cases():
    """(every case, nothing left out)."""
    from thinc.api import NumpyOps

    ops, rng = NumpyOps(), np.random.default_rng(0)
    x, lengths = rng.normal(size=(7, 6)), np.array([3, 1, 3], dtype="i")

    def of_y(forward, backward):
        def paired(x):
            y = forward(x)
            return y, (x, y)

        return paired, lambda dy, cache: backward(np.array(dy, order="C"), *cache)

    pairs = {name: (of_y(*pair), (x,)) for name, pair in _activations(ops).items()}
    for name in ("sum", "mean"):
        reduce, back = getattr(ops, f"reduce_{name}"), getattr(ops, f"backprop_reduce_{name}")
        pair = lambda x, n, f=reduce: (f(x, n), n), lambda dy, n, b=back: b(np.array(dy, order="C"), n)
        pairs[f"reduce_{name}"] = pair, (x, lengths)
    for name in ("first", "last"):
        reduce, back = getattr(ops, f"reduce_{name}"), getattr(ops, f"backprop_reduce_{name}")
        pairs[f"reduce_{name}"] = ((reduce, lambda dy, at, b=back: b(np.array(dy, order="C"), at)), (x, lengths))

    def reduce_max(x, n):
        y, which = ops.reduce_max(np.ascontiguousarray(x), n)
        return y, (which, n)

    pairs["reduce_max"] = (reduce_max, lambda dy, c: ops.backprop_reduce_max(np.array(dy, order="C"), *c)), (x, lengths)

    def maxout(x):
        y, which = ops.maxout(np.ascontiguousarray(x))
        return y, (which, x.shape[2])

    pairs["maxout"] = (
        (maxout, lambda dy, c: ops.backprop_maxout(np.array(dy, order="C"), *c)),
        (rng.normal(size=(4, 3, 2)),),
    )
    pairs["seq2col"] = ((lambda x: (ops.seq2col(np.ascontiguousarray(x), 1), None),
                         lambda dy, _: ops.backprop_seq2col(np.array(dy, order="C"), 1)), (x,))  # fmt: skip
    return [
        Case(f"{name}{label}", lambda made=made: made, options)
        for name, made in pairs.items()
        for label, options in (("", {}), (", regimes", {"regimes": "all"}))
    ], {}
