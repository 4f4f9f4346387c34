"""The gradient check: analytic gradients against two independent witnesses, tensor by tensor.

A tensor's gradient is *right* if the complex step agrees to 1e-10 and central differences to 1e-7
of the scaled error (``report.Row``). Elements at which the central differences at h and h/2 disagree
lie at a kink or in noise: there the witness is dropped, and the complex step alone decides. Without
a complex step (a forward that cannot take complex numbers) such an element makes the tensor
*inconclusive*. A check whose gradients are all zero *proves nothing*. Neither passes.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from npformer.backend import Device
from npformer.errors import DTypeError, ShapeError
from npformer.proof.oracles import Witness, along_directions, every_element
from npformer.proof.report import INCONCLUSIVE, NOTHING, RIGHT, WRONG, Report, Row
from npformer.proof.subject import Host, Subject, subject

COMPLEX_TOLERANCE = 1e-10
CENTRAL_TOLERANCE = 1e-7
#: Up to so many elements each one is checked; beyond, random directions, per tensor.
MANY_ELEMENTS = 2000
DIRECTIONS = 2


def gradcheck(
    target: Any,
    *inputs: Any,
    name: str | None = None,
    seed: int = 0,
    elementwise: bool | None = None,
    complex_step: bool = True,
    device: Device | None = None,
    **options: Any,
) -> Report:
    """Check every gradient of target at these inputs. Returns a Report; nothing of target is changed.

    target: a pair (``npf.Pair`` or a tuple ``(forward, backward)``), or a layer or model, your own
    included: an object with ``forward(*inputs) -> (y, cache)``, ``backward(dy, cache)`` and, if it has
    parameters, ``named_parameters()`` yielding (name, object with data and grad).
    inputs: float arrays are checked, in order against what backward returns; all else is passed on.
    options go to forward (``key=``, ``mask=``, …).
    elementwise: check each element (default for at most 2,000), or random directions, per tensor.
    complex_step False leaves that witness out, for a forward that drops imaginary parts (abs, var, …).

    Everything is computed in float64, whatever the dtype of target. Raises ShapeError if backward
    returns another number of gradients, or gradients of other shapes, than there are float inputs;
    DTypeError if a gradient is not float64.
    """
    checked = subject(target, inputs, options, device)
    if not checked.tensors:
        raise ShapeError("inputs: expected at least one float array, or a target with parameters, got nothing to check")
    upstream = _random_upstream(checked, seed)
    gradients = checked.gradients(upstream)
    for tensor, value in checked.tensors.items():
        gradient = gradients[tensor]
        if value.size == 0:
            raise ShapeError(
                f"{tensor}: expected at least one element, got {value.shape}; an empty check proves nothing"
            )
        if gradient.shape != value.shape:
            raise ShapeError(f"gradient of {tensor}: expected {value.shape}, got {gradient.shape}")
        if gradient.dtype != value.dtype:
            raise DTypeError(f"gradient of {tensor}: expected float64, as the input was given, got {gradient.dtype}")
    if elementwise is None:
        elementwise = sum(x.size for x in checked.tensors.values()) <= MANY_ELEMENTS
    with warnings.catch_warnings():
        warnings.simplefilter("error", np.exceptions.ComplexWarning)  # an imaginary part dropped, with notice
        witnesses = _witnesses(checked, gradients, upstream, elementwise, complex_step, seed)
    largest = max((_size(w.truth) for _, w in witnesses.values()), default=0.0)
    rows = [_judge(tensor, checked.tensors[tensor], *witnesses[tensor], largest, elementwise) for tensor in witnesses]
    return Report(name or getattr(target, "name", None) or type(target).__name__, tuple(rows))


def _random_upstream(checked: Subject, seed: int) -> tuple[Host, ...]:
    rng = np.random.default_rng(seed)
    return tuple(np.asarray(rng.normal(size=y.shape)) for y in checked.outputs({}))


def _witnesses(
    checked: Subject,
    gradients: dict[str, Host],
    upstream: tuple[Host, ...],
    elementwise: bool,
    use_complex: bool,
    seed: int,
) -> dict[str, tuple[Host, Witness]]:
    """For each tensor what is claimed and what the oracles say: by element, or along directions."""
    found = {}
    rng = np.random.default_rng([seed, 1])
    for tensor, gradient in gradients.items():
        if elementwise:
            found[tensor] = gradient, every_element(checked, tensor, upstream, use_complex)
            continue
        directions: list[Host] = [np.asarray(rng.normal(size=gradient.shape)) for _ in range(DIRECTIONS)]
        claimed = np.array([np.sum(gradient * direction) for direction in directions])
        found[tensor] = claimed, along_directions(checked, tensor, directions, upstream, use_complex)
    return found


def _judge(tensor: str, x: Host, claimed: Host, witness: Witness, largest: float, elementwise: bool) -> Row:
    """Compare what is claimed with what the witnesses say, and name the worst place."""
    truth = witness.truth
    scale = max(_size(truth), 1e-3 * largest) or 1.0
    error = np.abs(claimed - truth) / scale
    central_error = np.abs(claimed - witness.by_central) / scale
    unclear = ~(np.abs(witness.by_central - witness.by_central_wide) / scale <= CENTRAL_TOLERANCE)
    worst = np.unravel_index(int(np.argmax(np.nan_to_num(error, nan=np.inf))), error.shape)
    central = float(np.max(np.where(unclear, 0.0, central_error), initial=0.0))
    verdict, note = _verdict(float(error[worst]), central, bool(unclear.any()), witness.by_complex is not None)
    if largest == 0 and verdict == RIGHT:
        verdict, note = NOTHING, "every gradient of this check is 0"
    place = tuple(int(i) for i in worst)
    values = (float(error[worst]), central, place, float(claimed[worst]), float(truth[worst]), scale)
    return Row(tensor, x.shape, x.size, *values, verdict, note, by_direction=not elementwise)


def _verdict(error: float, central_error: float, any_unclear: bool, has_complex: bool) -> tuple[str, str]:
    """(verdict, note); NaN counts as an error."""
    if not has_complex:
        if not central_error <= CENTRAL_TOLERANCE:
            return WRONG, ""
        return (INCONCLUSIVE, "kink or noise, and no complex step") if any_unclear else (RIGHT, "")
    complex_agrees, central_agrees = error <= COMPLEX_TOLERANCE, central_error <= CENTRAL_TOLERANCE
    if complex_agrees and central_agrees:
        return RIGHT, "central differences cannot tell here" if any_unclear else ""
    if central_agrees and not any_unclear:
        return WRONG, "central differences agree: does forward drop imaginary parts? then complex_step=False"
    return WRONG, ""


def _size(x: Host) -> float:
    return float(np.max(np.abs(x), initial=0.0))
