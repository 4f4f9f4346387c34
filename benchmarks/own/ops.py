"""npformer's operations one by one, forward and backward, with chosen kernels."""

from dataclasses import replace

import numpy as np

from benchmarks.cases import case
from benchmarks.own.model import backend
from benchmarks.tasks import TOGETHER, Contender, repeated
from npformer.functional import OPERATIONS, AttentionMask
from npformer.models.presets import PRESETS

NAMES = tuple(OPERATIONS)


def ops(size, device, kernels, threads, precision="float32"):
    """Tasks "linear forward", "linear backward" and so on."""
    chosen, together = backend(device, kernels, precision), TOGETHER[device]

    def make(name, way):
        return repeated(way(getattr(chosen.ops, name), case(name, PRESETS[size]), chosen), together)

    tasks = {}
    for name in NAMES:
        tasks[f"{name} forward"] = lambda name=name: make(name, _forward)
        tasks[f"{name} backward"] = lambda name=name: make(name, _backward)
    about = {"backend": str(chosen), "threads": str(threads)}
    return Contender(about, tasks, synchronize=chosen.device.synchronize, together=together)


def _forward(pair, sample, chosen):
    inputs = _on_device(sample, chosen)

    def run():
        pair.forward(*inputs)

    return run


def _backward(pair, sample, chosen):
    inputs = _on_device(sample, chosen)
    y, cache = pair.forward(*inputs)
    dy = _placed(sample.dy(y), chosen)
    parameters = sample.arrays[len(sample.arrays) - sample.parameters :]
    into = tuple(chosen.zeros(x.shape) for x in parameters)

    def run():
        pair.backward(dy, cache, into=into)

    return run


def _on_device(sample, chosen):
    return tuple(_placed(x, chosen) for x in (*sample.arrays, *sample.options))


def _placed(x, chosen):
    """x, or a mask's array, on the device; on the CPU x itself, since a copy would make views of heads contiguous."""
    if type(x) is tuple:
        return tuple(_placed(each, chosen) for each in x)
    if isinstance(x, AttentionMask):
        return replace(x, key_visible=_placed(x.key_visible, chosen))
    if not isinstance(x, np.ndarray) or chosen.device.owns(x):
        return x
    return chosen.device.array(x, {"i": "int64", "b": "bool"}.get(x.dtype.kind, chosen.dtype))
