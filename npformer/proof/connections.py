"""Finds the part to which a layer passes a wrong gradient, if all parts themselves are right.

Backward runs once, and the gradient that it passes to the backward of each part is recorded. The true gradient is the
slope of L = Σ r·y along that part's output, by the complex step: the forward runs again with the output moved. Parts
are examined in backward order, so the first part that gets a wrong gradient names the connection.
"""

from __future__ import annotations

import numpy as np

from npformer.layers import Layer
from npformer.proof.inputs import as_tuple, like
from npformer.proof.listening import Call, Moving, listening
from npformer.proof.oracles import COMPLEX_H
from npformer.typing import HostArray

#: Relative to the sum of the sizes of its terms: a larger difference between slope and gradient is an error.
TOLERANCE = 1e-9


def wrong_connection(call: Call) -> str:
    """One sentence; "" for an operation, for a layer that is not on NumPy or refuses complex numbers."""
    layer = call.target
    if not isinstance(layer, Layer):
        return ""
    rng = np.random.default_rng(8)
    grads = [(p, p.grad.copy()) for _, p in layer.named_parameters() if isinstance(p.grad, np.ndarray)]
    try:
        with listening(layer) as ear:
            y, cache = layer.forward(*call.inputs, **call.options)
            upstream = [np.asarray(rng.normal(size=part.shape)) for part in as_tuple(y)]
            layer.backward(like(y, list(upstream)), cache)
        for part in reversed(ear.calls[0].parts):
            said = _wrongly_handed(part, call, upstream, rng)
            if said:
                return said
    except (TypeError, ValueError, AttributeError, np.exceptions.ComplexWarning):
        return ""
    finally:
        for parameter, before in grads:
            parameter.grad[...] = before
    return "the gradients that it passes to them are right: it combines their results wrongly"


def _wrongly_handed(part: Call, call: Call, upstream: list[HostArray], rng: np.random.Generator) -> str:
    """A sentence if the part gets a gradient that is not its output's; "" if it is right."""
    if part.upstream is None:
        return f"its backward never calls that of {part.name}, or with another cache"
    for which, (y, dy) in enumerate(zip(as_tuple(part.output), as_tuple(part.upstream), strict=True)):
        if dy is None:
            continue
        direction = np.asarray(rng.normal(size=np.shape(y)))
        with listening(call.target, watch=Moving(part.number, which, 1j * COMPLEX_H * direction)):
            moved, _ = call.target.forward(*call.inputs, **call.options)
        slope = sum(float(np.sum(r * np.imag(m))) for r, m in zip(upstream, as_tuple(moved), strict=True)) / COMPLEX_H
        claimed = float(np.sum(dy * direction))
        size = float(np.sum(np.abs(dy * direction))) + abs(slope)
        if not abs(claimed - slope) <= TOLERANCE * size:
            return (
                f"the gradient that it passes to {part.name} is wrong: {claimed:.4g} along a direction, but the slope "
                f"is {slope:.4g}; the gradients that it passes on before are right"
            )
    return ""
