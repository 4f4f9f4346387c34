"""The tour of a trace's page: from the letter that was most wrong, through one gradient, to one weight and back.

Its last stop changes the weight and runs the forward again: what the gradient predicts, beside what is measured.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from npformer.see.record import Trace
from npformer.see.record.calls import Call
from npformer.see.record.recording import Recording
from npformer.typing import HostArray

STEP = 0.01


def tour(trace: Trace) -> dict[str, Any] | None:
    """The stops; None without a recorded loss of tokens whose logits one weight makes."""
    recording = trace.recording
    if recording is None or recording.how is None:
        return None
    loss, seen = recording.calls[-1], recording.seen[-1]
    logits, targets, p = np.asarray(seen.inputs[0]), np.asarray(seen.inputs[1]), np.asarray(seen.cache.p)
    made = _maker(recording, logits)
    if logits.ndim != 3 or made is None:
        return None
    of_target = np.take_along_axis(p, targets[..., None].astype(np.int64), axis=-1)[..., 0]
    counted = np.asarray(seen.cache.counted)[..., 0] > 0
    at = np.unravel_index(np.argmin(np.where(counted, of_target, np.inf)), targets.shape)
    target = int(targets[at])
    weight = _weight(recording, made, target)
    if weight is None:
        return None
    return weight | {
        "target": target,
        "p": float(of_target[at]),
        "wrote": int(np.argmax(logits[at])),
        "loss": {
            "call": loss.number,
            "what": "gradients",
            "name": "dlogits",
            "flat": int(np.ravel_multi_index((*at, target), logits.shape)),
        },
    }


def _maker(recording: Recording, logits: HostArray) -> Call | None:
    """The linear map that made the logits."""
    for call, seen in zip(recording.calls, recording.seen, strict=True):
        is_one = call.operation == "linear" and len(seen.params.get(1, ())) == 1
        if is_one and np.array_equal(np.reshape(seen.output, -1), logits.reshape(-1)):
            return call
    return None


def _weight(recording: Recording, call: Call, column: int) -> dict[str, Any] | None:
    """The weight of this column with the largest gradient, and what a small step of it changes."""
    (part,) = recording.seen[call.number].params[1]
    gradient = np.asarray(recording.gradients[part.parameter])
    gradient = gradient.T if part.transposed else gradient
    shape = np.shape(recording.seen[call.number].inputs[1])
    if gradient.shape != shape:
        return None
    row = int(np.argmax(np.abs(gradient[:, column])))
    number = float(gradient[row, column])
    index = (column, row) if part.transposed else (row, column)
    step = -STEP if number > 0 else STEP
    moved = np.array(recording.checked.tensors[part.parameter], dtype=np.float64)
    moved[index] += step
    measured = float(np.real(recording.value({part.parameter: moved}))) - recording.loss
    flat = int(np.ravel_multi_index((row, column), shape))
    return {
        "weight": {"call": call.number, "what": "gradients", "name": "dweight", "flat": flat},
        "parameter": f"{part.parameter}[{index[0]},{index[1]}]",
        "gradient": number,
        "step": step,
        "predicted": step * number,
        "measured": measured,
    }
