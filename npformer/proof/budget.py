"""Compares gradients in float32, or on a GPU, with float64 on the host, within an error budget.

Central differences in float32 are off by about u^(2/3) = 1.5e-5 at best, by more where a loss is differenced after it
was summed; most gradients round to less. But the float64 gradient of the same code has been proven, and a float32 one
must equal it up to rounding. How much rounding to expect follows from the sums. One of n products a_i b_i, each rounded
to u = 2⁻²⁴, is off by about √n·u·Σ|a_i b_i|, since rounding errors are almost random and partly cancel; λ times that is
exceeded with probability below 2·exp(−λ²/2). The budget for a gradient is

    budget = κ·λ·u·(calls + Σ_sums √n)        λ = 4        κ = largest relative change of the gradient
                                                           per relative change of all inputs

over every sum in forward and backward, as the plain pairs make them: terms of matrix products, sums and means. Each
call of an operation adds 1 for its other arithmetic. κ (at least 1) is estimated in float64 from three small moves of
all inputs. The error is the largest difference over the largest entry of the tensor; for a tensor that is zero except
for rounding (below 1e-3 of the largest gradient, such as the bias of keys), over the largest gradient of all.

The budget is a heuristic, not a bound. It is generous where it adds the errors of all sums as if the gradient passed
through each. It is too small where terms cancel inside one operation: κ sees inputs that move, not Σ|a_i b_i| inside,
for example in a softmax so saturated that its weights are 0 and 1 to seven digits.

Source: Higham & Mary 2019, SIAM J. Sci. Comput. 41, theorem 3.1 (the probabilistic bound of an inner product); Higham
2002, "Accuracy and Stability of Numerical Algorithms", section 1.6 (error ≲ condition × backward error).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from npformer.backend import Backend, Pair, get_backend
from npformer.errors import ConfigError
from npformer.functional.arrays import namespace
from npformer.layers import Layer
from npformer.percent import percent
from npformer.proof.inputs import as_tuple, is_float, like, placed_as
from npformer.proof.listening import listening
from npformer.proof.measures import NEGLIGIBLE, U, largest, max_abs, worst_at
from npformer.proof.report import RIGHT, WRONG, Report, Row
from npformer.typing import HostArray, HostArrays

LAMBDA = 4.0
UNIT = {"float32": 2.0**-24, "float64": U}
JITTER, JITTERS = 1e-7, 3  # the size and the number of relative moves that estimate κ
#: The functions of the array API in which the plain pairs add numbers up.
ADDING = ("matmul", "sum", "mean", "cumulative_sum")


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
    target = build(reference)
    with lengths_of_sums() as lengths:
        truth, calls = _gradients(target, inputs, options, reference)
    found, _ = _gradients(build(backend), inputs, options, backend)
    moved = [_gradients(build(reference), inputs, options, reference, jitter=seed)[0] for seed in range(1, JITTERS + 1)]
    rounding = LAMBDA * UNIT[backend.dtype] * (calls + sum(map(math.sqrt, lengths)))
    most = largest(truth.values())
    rows = []
    for tensor, n in truth.items():
        scale = (max_abs(n) if max_abs(n) > NEGLIGIBLE * most else most) or 1.0
        condition = max(1.0, *(max_abs(other[tensor] - n) / scale / JITTER for other in moved))
        rows.append(_row(tensor, found[tensor], n, scale, rounding * condition))
    return Report(name or type(target).__name__, tuple(rows))


def _row(tensor: str, a: HostArray, n: HostArray, scale: float, budget: float) -> Row:
    error = np.abs(a - n) / scale
    worst = worst_at(error)
    most = float(error[worst])
    note = f"{percent(most / budget)} of the budget {budget:.1e}"
    values = (most, most, worst, float(a[worst]), float(n[worst]), scale, RIGHT if most <= budget else WRONG, note)
    return Row(tensor, n.shape, n.size, *values)


def _gradients(
    target: Any, inputs: Sequence[Any], options: dict[str, Any], backend: Backend, jitter: int = 0
) -> tuple[HostArrays, int]:
    """Gradients by name as float64, computed in the backend's own precision, and how many operations were called.

    jitter, a seed, moves every input number by a relative JITTER.
    """
    move = _jitter(jitter, backend)
    given = [move(placed_as(x, backend.device, backend.dtype)) for x in inputs]
    named = {key: placed_as(x, backend.device, backend.dtype) for key, x in options.items()}
    if not isinstance(target, Layer):
        y, cache = target[0](*given, **named)
        found = target[1](_upstream(y, backend, move), cache)
        return _by_name(found, {}, backend), 1
    parameters = dict(target.named_parameters())
    for parameter in parameters.values():
        parameter.data[...] = move(parameter.data)
    target.zero_grad()
    with listening(target) as ear:
        y, cache = target.forward(*given, **named)
    found = target.backward(_upstream(y, backend, move), cache)
    operations = sum(isinstance(call.target, Pair) for call in ear.calls)
    return _by_name(found, parameters, backend), operations


def _jitter(seed: int, backend: Backend) -> Callable[[Any], Any]:
    """Moves float arrays by random relative amounts of size JITTER; seed 0 leaves them unchanged."""
    rng = np.random.default_rng(seed)

    def moved(x: Any) -> Any:
        if not seed or not is_float(x):
            return x
        return x * backend.array(1 + JITTER * rng.choice([-1.0, 1.0], size=x.shape))

    return moved


def _by_name(found: Any, parameters: dict[str, Any], backend: Backend) -> HostArrays:
    """Gradients of inputs, numbered, and of parameters, as float64 on the host."""
    gradients = {f"input {i}": gradient for i, gradient in enumerate(() if found is None else as_tuple(found))}
    gradients |= {name: parameter.grad for name, parameter in parameters.items()}
    return {name: np.asarray(backend.host(gradient), dtype=np.float64) for name, gradient in gradients.items()}


def _upstream(y: Any, backend: Backend, move: Callable[[Any], Any]) -> Any:
    """The same random numbers, in every precision."""
    rng = np.random.default_rng(3)
    return like(y, [move(backend.array(np.asarray(rng.normal(size=part.shape)))) for part in as_tuple(y)])


@contextmanager
def lengths_of_sums() -> Iterator[list[int]]:
    """Within this context, the plain pairs on NumPy arrays append the number of terms of each sum that they make."""
    library, lengths = namespace(np.ones(1)), list[int]()
    own = {name: getattr(library, name) for name in ADDING}

    def counting(name: str) -> Callable[..., Any]:
        def call(x: Any, *more: Any, **options: Any) -> Any:
            y = own[name](x, *more, **options)
            along = {"matmul": -1, "cumulative_sum": options.get("axis", -1)}
            lengths.append(x.shape[along[name]] if name in along else x.size // max(1, y.size))
            return y

        return call

    for name in ADDING:
        setattr(library, name, counting(name))
    try:
        yield lengths
    finally:
        for name, function in own.items():
            setattr(library, name, function)
