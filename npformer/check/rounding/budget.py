"""Compares gradients in float32, or on a GPU, with float64 on the host, within an error budget.

Central differences in float32 are off by about u^(2/3) = 1.5e-5 at best, by more where a loss is differenced after it
was summed; most gradients round to less. But the float64 gradient of the same code has been proven, and a float32 one
must equal it up to rounding, at the same numbers of float32. How much rounding to expect is measured: the plain pairs
run in float64 a few times more, with every operation moved by a rounding of u = 2⁻²⁴ (``stochastic.py``). The budget
for a gradient is

    budget = λ·(e + u)        λ = 8        e = the root mean square, over these runs, of a run's largest error

The error is the largest difference over the largest entry of the tensor; for a tensor that is zero except for rounding
(such as the bias of keys), over a thousandth of the largest gradient of all (``measures.py``).

The budget is a heuristic, not a bound. RUNS are a small sample: for a tensor of one number, e is less than an eighth of
the deviation that it estimates once in some thousand times. So λ is twice what the catalogue's gradients need.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from npformer.backend import Backend, get_backend
from npformer.check.measures import largest, max_abs, rms, scale_of, worst_at
from npformer.check.report import RIGHT, WRONG, Report, Row
from npformer.check.rounding.formats import FORMATS, rounded
from npformer.check.rounding.stochastic import Level, Phased, Rounding
from npformer.check.subject import Subject, name_of
from npformer.errors import ConfigError
from npformer.io.percent import percent
from npformer.typing import HostArrays, Values

LAMBDA = 8.0
RUNS = 4


def against_float64(
    build: Callable[[Backend], Any], inputs: Sequence[Any], options: Values, backend: Backend, name: str = ""
) -> Report:
    """Gradients of build(backend) against those of build(NumPy in float64), at the same parameters and inputs.

    Raises ConfigError if backend is NumPy in float64 itself: such a comparison proves nothing.
    """
    if (backend.name, backend.dtype) == ("numpy", "float64"):
        raise ConfigError(
            "backend: expected another precision or device than numpy in float64, which is the reference; "
            "comparing a function with itself proves nothing"
        )
    host, precision = get_backend("numpy", dtype="float64", kernels="plain"), FORMATS[backend.dtype]
    phased = Phased(build(host))
    reference = Subject(phased, inputs, options, host.device)
    kernel = Subject(build(backend), inputs, options, backend.device, dtype=backend.dtype)
    at = {tensor: rounded(x, precision) for tensor, x in reference.tensors.items()}
    rng = np.random.default_rng(3)
    upstream = tuple(rounded(np.asarray(rng.normal(size=y.shape)), precision) for y in reference.outputs(at))
    got, truth = kernel.gradients(upstream, at), reference.gradients(upstream, at)
    level = Level(precision.u, precision.u)

    def drawn(seed: int) -> HostArrays:
        run = Rounding(seed, level, level)
        return phased.run(run, lambda: reference.gradients(tuple(map(run.of, upstream)), run.arrays(at)))  # type: ignore[no-any-return]

    runs = [drawn(seed) for seed in range(RUNS)]
    most, rows = largest(truth.values()), []
    for tensor, n in truth.items():
        scale = scale_of(n, most)
        errors = np.array([max_abs(run[tensor] - n) / scale for run in runs])
        budget, a = LAMBDA * (rms(errors) + precision.u), got[tensor]
        error = np.abs(a - n) / scale
        place = worst_at(error)
        worst = float(error[place])
        verdict, note = RIGHT if worst <= budget else WRONG, f"{percent(worst / budget)} of the budget {budget:.1e}"
        values = (worst, worst, place, float(a[place]), float(n[place]), scale, verdict, note)
        rows.append(Row(tensor, n.shape, n.size, *values))
    return Report(name or name_of(kernel.target), tuple(rows))
