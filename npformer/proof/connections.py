"""Of a layer whose parts are all right: which of them it hands a wrong gradient.

Backward is run once, and what it hands to the backward of each part is written down. The truth is the slope of
L = Σ r·y as that part's output moves, by the complex step: the forward is run again with the output moved. Parts are
looked at as backward meets them, so the first one that is handed something wrong names the connection.
"""

from __future__ import annotations

import numpy as np

from npformer.layers import Layer
from npformer.proof.inputs import as_tuple, like
from npformer.proof.listening import Call, listening
from npformer.proof.oracles import COMPLEX_H
from npformer.typing import HostArray

#: Of the sum of the sizes of its terms: a slope that is farther from what was handed on is another one.
TOLERANCE = 1e-9


def wrong_connection(call: Call) -> str:
    """One sentence; "" for an operation, for what runs elsewhere than on NumPy, or takes no complex numbers."""
    layer = call.target
    if not isinstance(layer, Layer):
        return ""
    rng = np.random.default_rng(8)
    grads = [(p, p.grad.copy()) for _, p in layer.named_parameters() if isinstance(p.grad, np.ndarray)]
    try:
        with listening(layer) as root:
            y, cache = layer.forward(*call.inputs, **call.options)
            upstream = [np.asarray(rng.normal(size=part.shape)) for part in as_tuple(y)]
            layer.backward(like(y, list(upstream)), cache)
        for part in reversed(root.parts[0].parts):
            said = _wrongly_handed(part, call, upstream, rng)
            if said:
                return said
    except (TypeError, ValueError, AttributeError, np.exceptions.ComplexWarning):
        return ""
    finally:
        for parameter, before in grads:
            parameter.grad[...] = before
    return "what it hands to each of them is right: it puts together wrongly what they give back"


def _wrongly_handed(part: Call, call: Call, upstream: list[HostArray], rng: np.random.Generator) -> str:
    """A sentence if the part is handed another gradient than that of its output; "" if it is right."""
    if part.upstream is None:
        return f"its backward never calls that of {part.name}, or with another cache"
    for which, (y, dy) in enumerate(zip(as_tuple(part.output), as_tuple(part.upstream), strict=True)):
        if dy is None:
            continue
        direction = np.asarray(rng.normal(size=np.shape(y)))
        with listening(call.target, move=(part.number, which, direction)):
            moved, _ = call.target.forward(*call.inputs, **call.options)
        slope = sum(float(np.sum(r * np.imag(m))) for r, m in zip(upstream, as_tuple(moved), strict=True)) / COMPLEX_H
        claimed = float(np.sum(dy * direction))
        size = float(np.sum(np.abs(dy * direction))) + abs(slope)
        if not abs(claimed - slope) <= TOLERANCE * size:
            return (
                f"the gradient that it hands to {part.name} is wrong: {claimed:.4g} along a direction, where the slope "
                f"is {slope:.4g}; what it hands on before is right"
            )
    return ""
