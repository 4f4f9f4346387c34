"""A pair as every checker can take it: a function of float arrays, and its claimed gradients."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.corpus.pairs import as_tuple
from benchmarks.corpus.rounding import stored
from npformer.check.inputs import is_float


@dataclass(frozen=True)
class Problem:
    """call(arrays) gives the outputs, pull(arrays, dys) the claimed gradient of each array.

    truth(arrays, dys): gradients to compare with, in the arrays' dtypes, from the right backward in float64.
    is_bfloat16: the arrays are float32 and hold numbers of bfloat16.
    """

    arrays: list[np.ndarray]
    call: Callable[[list[np.ndarray]], tuple[np.ndarray, ...]]
    pull: Callable[[list[np.ndarray], list[np.ndarray]], list[np.ndarray]]
    truth: Callable[[list[np.ndarray], list[np.ndarray]], list[np.ndarray]]
    is_bfloat16: bool = False


def of_subject(checked, right=None):
    """The Problem of what npformer's check has made of a pair, a layer or a model; right: the same with no bug."""
    names = list(checked.tensors)

    def call(arrays):
        return checked.outputs(dict(zip(names, map(np.array, arrays), strict=True)))

    def pull_of(one):
        def pull(arrays, dys):
            gradients = one.gradients(tuple(map(np.array, dys)), dict(zip(names, map(np.array, arrays), strict=True)))
            return [np.asarray(gradients[name]) for name in names]

        return pull

    return Problem(list(checked.tensors.values()), call, pull_of(checked), pull_of(right or checked))


def of_kernel(target, reference, precision, inputs, options):
    """The Problem of a kernel in few digits; what is moved is rounded to its precision before it gets it."""
    forward, backward = target if isinstance(target, tuple) else (target.forward, target.backward)
    floats = [i for i, x in enumerate(inputs) if is_float(x)]

    def at(arrays, cast):
        moved = dict(zip(floats, arrays, strict=True))
        return [cast(moved[i]) if i in moved else x for i, x in enumerate(inputs)]

    def call(arrays):
        y, _ = forward(*at(arrays, lambda x: stored(x, precision)), **options)
        return tuple(map(np.asarray, as_tuple(y)))

    def gradients(forward, backward, arrays, dys, cast):
        y, cache = forward(*at(arrays, cast), **options)
        sent = [cast(dy) for dy in dys]
        found = as_tuple(backward(tuple(sent) if isinstance(y, tuple) else sent[0], cache))
        return [np.asarray(g, dtype=x.dtype) for g, x in zip(found, arrays, strict=False)]

    def pull(arrays, dys):
        return gradients(forward, backward, arrays, dys, lambda x: stored(x, precision))

    def truth(arrays, dys):
        return gradients(*reference, arrays, dys, lambda x: stored(x, precision).astype(np.float64))

    return Problem([inputs[i] for i in floats], call, pull, truth, precision == "bfloat16")


def upstream(outputs):
    """A random gradient of each output."""
    rng = np.random.default_rng(5)
    return [np.asarray(rng.normal(size=y.shape)).astype(y.dtype) for y in outputs]
