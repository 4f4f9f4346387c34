"""Compares gradients in float32, or on a GPU, with float64 on the host, within a derived error budget.

Differences in float32 are too coarse to check a float32 gradient with (never better than about 1e-3).
But the float64 gradient of the same code has been proven; a float32 one must equal it up to rounding.
The expected rounding follows from the number of added terms. A sum of n products, each rounded to
u = 2⁻²⁴, is off by about √n·u of its size, since rounding errors are almost random and partly
cancel; λ√n·u is exceeded with probability below 2·exp(−λ²/2). A gradient passes, at worst, through every
sum in the model's forward and backward, and relative errors add. The result is the same as if the
inputs had been off by that much, so the error is multiplied by the condition κ of the gradient:

    budget = κ·λ·u·Σ_calls Σ_sums √n        λ = 4        κ = largest relative change of the gradient
                                                         per relative change of all inputs

n comes from the recorded calls: C_in for a linear map, C_out and N for its backward, D, S and T
for attention, and so on. κ (at least 1) is measured in float64 by moving all inputs a little. The error
is the largest difference over the largest entry of the tensor; for a tensor that is zero except for rounding
(below 1e-3 of the largest gradient, such as the bias of keys), over the largest gradient of all.

The budget does not hold for a gradient that is a difference of nearly equal numbers inside one
operation, for example in a softmax so saturated that its weights are 0 and 1 to seven digits.

Source: Higham & Mary 2019, SIAM J. Sci. Comput. 41, identity 2.4 (the probabilistic bound); Higham 2002,
"Accuracy and Stability of Numerical Algorithms", section 1.6 (error ≲ condition × backward error).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from npformer.backend import Backend, Pair, get_backend
from npformer.errors import ConfigError
from npformer.layers import Layer
from npformer.proof.inputs import placed_as
from npformer.proof.listening import Call, listening
from npformer.proof.measures import NEGLIGIBLE, U, largest, max_abs, worst_at
from npformer.proof.report import RIGHT, WRONG, Report, Row
from npformer.typing import HostArray, HostArrays

LAMBDA = 4.0
UNIT = {"float32": 2.0**-24, "float64": U}
JITTER, JITTERS = 1e-7, 3  # the size and the number of relative moves that measure κ


def against_float64(
    build: Callable[[Backend], Any], inputs: Sequence[Any], options: dict[str, Any], backend: Backend, name: str = ""
) -> Report:
    """Gradients of build(backend) against those of build(NumPy in float64), at the same parameters and inputs.

    Raises ConfigError if backend is NumPy in float64 itself: such a comparison proves nothing.
    """
    if (backend.name, backend.dtype) == ("numpy", "float64"):
        raise ConfigError(
            "backend: expected another precision or device than numpy in float64, which is the reference; "
            "comparing a function with itself proves nothing"
        )
    reference = get_backend("numpy", dtype="float64", kernels="plain")
    truth, sums = _gradients(build(reference), inputs, options, reference)
    found, _ = _gradients(build(backend), inputs, options, backend)
    moved = [_gradients(build(reference), inputs, options, reference, jitter=seed)[0] for seed in range(1, JITTERS + 1)]
    rounding = LAMBDA * UNIT[backend.dtype] * sums
    most = largest(truth.values())
    rows = []
    for tensor, n in truth.items():
        scale = (max_abs(n) if max_abs(n) > NEGLIGIBLE * most else most) or 1.0
        condition = max(1.0, *(max_abs(other[tensor] - n) / scale / JITTER for other in moved))
        rows.append(_row(tensor, found[tensor], n, scale, rounding * condition))
    return Report(name or type(build(reference)).__name__, tuple(rows))


def _row(tensor: str, a: HostArray, n: HostArray, scale: float, budget: float) -> Row:
    error = np.abs(a - n) / scale
    worst = worst_at(error)
    most = float(error[worst])
    note = f"{most / budget:.1%} of the budget {budget:.1e}"
    values = (most, most, worst, float(a[worst]), float(n[worst]), scale, RIGHT if most <= budget else WRONG, note)
    return Row(tensor, n.shape, n.size, *values)


def _gradients(
    target: Any, inputs: Sequence[Any], options: dict[str, Any], backend: Backend, jitter: int = 0
) -> tuple[HostArrays, float]:
    """Gradients by name as float64, computed in the backend's own precision, and Σ √n over the calls made.

    jitter, a seed, moves every input number by a relative JITTER.
    """
    move = _Jitter(jitter, backend)
    given = [move(placed_as(x, backend.device, backend.dtype)) for x in inputs]
    named = {key: placed_as(x, backend.device, backend.dtype) for key, x in options.items()}
    if not isinstance(target, Layer):
        y, cache = target[0](*given, **named)
        found = target[1](_upstream(y, backend, move), cache)
        sums = _sums([Call(_op_name(target, backend), target, tuple(given), named)])
        return _by_name(found, {}, backend), sums
    parameters = dict(target.named_parameters())
    for parameter in parameters.values():
        parameter.data[...] = move(parameter.data)
    target.zero_grad()
    with listening(target) as ear:
        y, cache = target.forward(*given, **named)
    found = target.backward(_upstream(y, backend, move), cache)
    return _by_name(found, parameters, backend), _sums(ear.calls[:1])


class _Jitter:
    """Moves float arrays by random relative amounts of size JITTER; seed 0 leaves them unchanged."""

    def __init__(self, seed: int, backend: Backend) -> None:
        self._rng = np.random.default_rng(seed) if seed else None
        self._backend = backend

    def __call__(self, x: Any) -> Any:
        if self._rng is None or "float" not in str(getattr(x, "dtype", "")):
            return x
        return x * self._backend.array(1 + JITTER * self._rng.choice([-1.0, 1.0], size=x.shape))


def _by_name(found: Any, parameters: dict[str, Any], backend: Backend) -> HostArrays:
    """Gradients of inputs, numbered, and of parameters, as float64 on the host."""
    of_inputs = found if isinstance(found, tuple) else () if found is None else (found,)
    gradients = {f"input {i}": gradient for i, gradient in enumerate(of_inputs)}
    gradients |= {name: parameter.grad for name, parameter in parameters.items()}
    return {name: np.asarray(backend.host(gradient), dtype=np.float64) for name, gradient in gradients.items()}


def _upstream(y: Any, backend: Backend, move: _Jitter) -> Any:
    """The same random numbers, in every precision."""
    rng = np.random.default_rng(3)
    shapes = [part.shape for part in (y if isinstance(y, tuple) else (y,))]
    parts = [move(backend.array(np.asarray(rng.normal(size=shape)))) for shape in shapes]
    return tuple(parts) if isinstance(y, tuple) else parts[0]


def _op_name(target: Any, backend: Backend) -> str:
    return next((op for op, pair in vars(backend.ops).items() if pair is target), "")


def _sums(calls: Sequence[Call]) -> float:
    """Σ √n over every sum in the forward and backward of these calls and of the calls in them."""
    total = 0.0
    for call in calls:
        if isinstance(call.target, Pair):
            total += sum(math.sqrt(n) for n in _terms(call.name.rpartition(".")[2], call.inputs))
        total += _sums(call.parts)
    return total


def _terms(op: str, inputs: Sequence[Any]) -> list[int]:
    """The lengths of the sums in an operation's forward and backward."""
    shape = tuple(getattr(inputs[0], "shape", ()))
    tokens = math.prod(shape[:-1]) if shape else 1
    if op == "linear":
        return [*inputs[1].shape, tokens]
    if op == "feed_forward":
        width, hidden = inputs[1].shape
        return [width, hidden, hidden, width, tokens, tokens]
    if op == "attention":
        return [shape[-1], inputs[1].shape[-2], inputs[1].shape[-2], shape[-1], shape[-2], inputs[1].shape[-2]]
    if op == "embedding":
        return [math.prod(shape)]
    if op in ("layer_norm", "post_norm", "add_norm"):
        return [shape[-1], shape[-1], shape[-1], shape[-1], tokens]
    if op in ("softmax", "cross_entropy"):
        return [shape[-1], shape[-1]]
    return [tokens if op == "learned_positions" else 1]
