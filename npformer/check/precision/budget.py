"""Compares gradients in float32, or on a GPU, with float64 on the host, within an error budget.

Central differences in float32 are off by about u^(2/3) = 1.5e-5 at best, by more where a loss is differenced after it
was summed; most gradients round to less. But the float64 gradient of the same code has been proven, and a float32 one
must equal it up to rounding, at the same numbers of float32. How much rounding to expect is measured: the plain pairs
run in float64 a few times more, with every operation moved by a rounding of u = 2⁻²⁴ (``rounding.py``). The budget for
a gradient is

    budget = λ·(e + u)        λ = 8        e = the root mean square, over these runs, of a run's largest error

The error is the largest difference over the largest entry of the tensor; for a tensor that is zero except for rounding
(such as the bias of keys), over a thousandth of the largest gradient of all (``measures.py``).

The budget is a heuristic, not a bound. RUNS are a small sample: for a tensor of one number, e is less than an eighth of
the deviation that it estimates once in some thousand times. So λ is twice what the catalogue's gradients need.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from npformer.backend import Backend, get_backend
from npformer.check.inputs import as_tuple, is_float, like, place
from npformer.check.measures import largest, max_abs, rms, scale_of, worst_at
from npformer.check.precision.formats import FORMATS, Format, rounded
from npformer.check.precision.rounding import Level, Rounding
from npformer.check.report import RIGHT, WRONG, Report, Row
from npformer.errors import ConfigError
from npformer.io.percent import percent
from npformer.layers import Layer
from npformer.typing import HostArray, HostArrays

LAMBDA = 8.0
RUNS = 4


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
    reference, precision = get_backend("numpy", dtype="float64", kernels="plain"), FORMATS[backend.dtype]
    target = build(reference)
    points = [np.array(owner.data) for owner in _owners(target)]

    def gradients(on: Backend, rounding: Rounding | None = None) -> HostArrays:
        return _gradients(build(on), points, inputs, options, on, precision, rounding)

    got, truth = gradients(backend), gradients(reference)
    level = Level(precision.u, precision.u)
    runs = [gradients(reference, Rounding(seed, level, level)) for seed in range(RUNS)]
    most, rows = largest(truth.values()), []
    for tensor, n in truth.items():
        scale = scale_of(n, most)
        errors = np.array([max_abs(run[tensor] - n) / scale for run in runs])
        rows.append(_row(tensor, got[tensor], n, scale, LAMBDA * (rms(errors) + precision.u)))
    return Report(name or type(target).__name__, tuple(rows))


def _row(tensor: str, a: HostArray, n: HostArray, scale: float, budget: float) -> Row:
    error = np.abs(a - n) / scale
    worst = worst_at(error)
    most = float(error[worst])
    note = f"{percent(most / budget)} of the budget {budget:.1e}"
    values = (most, most, worst, float(a[worst]), float(n[worst]), scale, RIGHT if most <= budget else WRONG, note)
    return Row(tensor, n.shape, n.size, *values)


def _gradients(
    target: Any,
    points: Sequence[HostArray],
    inputs: Sequence[Any],
    options: dict[str, Any],
    backend: Backend,
    precision: Format,
    rounding: Rounding | None,
) -> HostArrays:
    """Gradients by name as float64, computed in the backend's own precision. points: the parameters' values."""

    def at(x: Any) -> Any:
        if not is_float(x):
            return place(x, backend.device)
        placed = backend.array(rounded(x, precision))
        return placed if rounding is None else rounding.of(placed)

    for owner, point in zip(_owners(target), points, strict=True):
        owner.data, owner.grad = at(point), backend.zeros(point.shape)
    forward, backward = (target.forward, target.backward) if isinstance(target, Layer) else target
    during = nullcontext if rounding is None else rounding.during
    with during(True):
        y, cache = forward(*map(at, inputs), **{key: at(x) for key, x in options.items()})
    rng = np.random.default_rng(3)
    upstream = [at(np.asarray(rng.normal(size=part.shape))) for part in as_tuple(y)]
    with during(False):
        returned = backward(like(y, upstream), cache)
    gradients = {f"input {i}": gradient for i, gradient in enumerate(() if returned is None else as_tuple(returned))}
    if isinstance(target, Layer):
        gradients |= {name: parameter.grad for name, parameter in target.named_parameters()}
    return {name: np.asarray(backend.host(gradient), dtype=np.float64) for name, gradient in gradients.items()}


def _owners(target: Any) -> list[Any]:
    """The parameters of a layer, each once, whatever parts of it have names; a pair has none."""
    parameters = target.named_parameters() if isinstance(target, Layer) else ()
    return list({id(owner): owner for owner in (getattr(p, "owner", p) for _, p in parameters)}.values())
