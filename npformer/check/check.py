"""The gradient check: analytic gradients against two independent witnesses, tensor by tensor, entry by entry.

The complex step is used where it is valid (``fitness.py``); differences confirm it, or decide alone, extrapolated
(``oracles.py``). ``verdict.py`` defines what counts as right. A check that could not fail is refused or
*proves nothing* (``vacuity.py``); other properties of a backward are checked too (``properties.py``). A wrong gradient
is explained (``causes``). Kernels in float32 or less are compared with a reference (``rounding``).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from npformer.backend import Device
from npformer.check.adapters.triton_kernels import patched_once
from npformer.check.checkable import within
from npformer.check.fitness import place_of
from npformer.check.inputs import is_float
from npformer.check.look import CheckOptions, OtherPrecision, random_upstreams
from npformer.check.one_point import at_one_point
from npformer.check.prepared import Constants, adapted, expect_known, prepared
from npformer.check.remembered import remembered_bits
from npformer.check.report import Report, Row
from npformer.check.subject import BackwardFailed, Subject, name_of
from npformer.check.vacuity import refuse_wide, without_gradients
from npformer.check.verdict import TOLERANCE
from npformer.errors import ConfigError, ShapeError

if TYPE_CHECKING:
    from npformer.check.regimes import Regimes

#: Around a warp, a vector register or a cache line, and around a block.
SIZES = (31, 32, 33, 127, 128, 129)
SAMPLES = 5
#: Gives inputs: those of a point that it draws, and those of a size.
Sample = Callable[[np.random.Generator], Sequence[Any]]
Sized = Callable[[int], Sequence[Any]]
_PACKAGE = str(Path(__file__).parents[1])


def gradcheck(
    target: Any,
    *inputs: Any,
    name: str | None = None,
    names: Sequence[str] | None = None,
    seed: int = 0,
    elementwise: bool | None = None,
    complex_step: bool = True,
    tolerance: float = TOLERANCE,
    reference: Any = None,
    precision: str | None = None,
    accumulate: str | None = None,
    structure: str | Mapping[str, str] | None = None,
    constant: Constants = (),
    sample: Callable[[np.random.Generator], Sequence[Any]] | None = None,
    sizes: Sized | Sequence[int] | None = None,
    regimes: Regimes | None = None,
    allow_length_one: bool = False,
    explain: bool = True,
    repeat: int | None = None,
    device: Device | None = None,
    **options: Any,
) -> Report:
    """Check every gradient of target at these inputs. Returns a Report; target is not changed.

    target: a pair (``npf.Pair`` or a tuple ``(forward, backward)``), a torch.autograd.Function, an nn.Module or a
    function of JAX's (as by ``npf.from_torch``, ``npf.from_jax``), or a layer or model, your own included: an object
    with ``forward(*inputs) -> (y, cache)``, ``backward(dy, cache)`` and, if it has parameters, ``named_parameters()``
    yielding (name, object with data and grad). A parameter that is constant (γ = 1, b = 0) is moved a little for the
    check: a constant hides mistakes.
    inputs: float arrays, also in lists and dicts, are checked in order against backward's gradients; Python
    floats if backward returns a gradient for them; everything else is passed on. names: names of the inputs.
    constant: names or positions of inputs that want no gradient, so that backward may return None for them; so do
    tensors of PyTorch that require none, beside others that do. "output 1": the second output wants none, as a number
    for the log, or what PyTorch marks as such or JAX stops. options go to forward: ``context=`` of npformer's
    layers, ``key=`` of its models, and whatever yours takes.
    elementwise: check each element (default for at most 2,000), or random directions, per tensor.
    complex_step False switches that witness off; if it is invalid for target, it is left out automatically, and the
    report says so. tolerance: an entry's largest error relative to the largest entry of its tensor, and relative to
    the terms whose sum it is (the two rules of ``verdict.py``).
    reference: for a kernel in float32, TF32, float16 or bfloat16, a pair or a forward that is right; it runs in
    float64. For a kernel in float64 it declares another gradient than the derivative: a straight-through estimator's.
    precision: "float32", "tf32", "float16", "bfloat16" or "float64", if it is not the inputs'. accumulate: what the
    kernel adds up in (default float32).
    structure: "symmetric" for inputs of which only one triangle is read, or {name: "symmetric"}.
    sample: sample(rng) gives inputs at other points, sizes: sizes(n) inputs of size n (31 to 33, 127 to 129).
    regimes: "all", or names of ``regimes.py``, or {input: "scores", "rows", "gates", "ids", "lengths", "masks" or such
    names}: the check is made again where these regimes change your inputs, and at other sizes of them: those of sizes
    if they are numbers, none if it is (), else one, every remainder of 16, and around 64, 128, 256 and 512.
    explain False omits the search for the cause of an error. The search takes up to ten (Triton: 30) seconds, changes
    and runs a wrong pair's backward thousands of times: use explain=False for a backward that writes files.
    repeat: runs of the backward (at most 2 s), which must agree. None: a few, and 150 if anything hints at a fault.
    allow_length_one: do not refuse inputs of length 1 along batch or sequence.

    Everything is computed in float64, whatever the dtype of target, except with a reference. A backward that raises an
    exception where its forward answers, or returns another number of gradients, or gradients of other shapes, is a
    problem of the report. If all gradients are float32 or float16, target is judged in that precision. Raises
    DTypeError if only some are; ConfigError for a tolerance that would accept anything. An error inside forward at your
    own inputs is raised unchanged.
    """
    refuse_wide(tolerance)
    if not (sizes is None or callable(sizes) or all(type(n) is int and n > 0 for n in sizes)):
        raise ConfigError(f"sizes: expected a function of a size, or whole numbers >= 1, got {sizes!r}")
    if repeat is not None and repeat < 2:
        raise ConfigError(f"repeat: expected at least 2 runs of the backward, or None for a few, got {repeat}")
    how = CheckOptions(
        seed=seed, elementwise=elementwise, complex_step=complex_step, tolerance=tolerance, structure=structure,
        allow_length_one=allow_length_one, why=explain, repeat=repeat, device=device, names=names,
        constant=constant, reference=reference, precision=precision, accumulate=accumulate, options=options,
    )  # fmt: skip
    if how.is_low and (elementwise is False or tolerance != TOLERANCE):
        raise ConfigError(
            "reference, precision: expected no tolerance or elementwise=False beside them: each element is judged by "
            "what the precision explains"
        )
    target = adapted(target, inputs)
    expect_known(options, target, list(inspect.signature(gradcheck).parameters))
    try:
        with remembered_bits(), patched_once():
            report = _checked(target, inputs, how, sample, sizes, regimes)
    except Exception as error:
        raise error.with_traceback(_their_part(error))  # noqa: B904 - it is the same one
    return replace(report, name=name or name_of(target))


def _checked(
    target: Any, inputs: Sequence[Any], how: CheckOptions, sample: Sample | None, sizes: Any, regimes: Regimes | None
) -> Report:
    """Run the check in float64 at all points, or in the target's own precision."""
    if how.reference is not None and any("bfloat16" in str(getattr(x, "dtype", "")) for x in inputs):
        how = replace(how, precision=how.precision or "bfloat16")
    if getattr(target, "for_tensors", None) is not None and any(
        hasattr(x, "requires_grad") for x in within(inputs, how.options)
    ):
        target = target.for_tensors((*inputs, *within(inputs, how.options)), how.precision is not None)

    def check(point: Sequence[Any], how: CheckOptions) -> Report:
        ready = prepared(target, point, how.names, how.constant)
        try:
            if not how.is_low:
                return at_one_point(target, ready, how)
            # its modules are loaded only if they are needed
            from npformer.check.rounding.low_precision import in_low_precision

            return _explained(in_low_precision(target, ready, how), target, ready, how)
        except BackwardFailed as failed:
            return _without_backward(failed, how)
        except OtherPrecision as other:
            if how.is_low or not other.is_everywhere:
                raise
            found, low = check(point, replace(how, precision=other.dtype)), other.dtype
            note = (
                f'backward computes in {low}, so it is judged in {low}, as by precision="{low}"; reference= knows more'
            )
            return replace(found, notes=(note, *found.notes))

    report, later = check(inputs, how), replace(how, why=False)  # causes are reported once
    drawn = sizes if callable(sizes) else None
    report = _merged(report, [(where, check(point, later)) for where, point in _points(sample, drawn, how.seed)])
    if regimes is None and (sizes is None or drawn is not None):
        return report
    from npformer.check.walk import in_regimes

    return in_regimes(report, target, prepared(target, inputs, how.names, how.constant), how, check, regimes, sizes)


def _without_backward(failed: BackwardFailed, how: CheckOptions) -> Report:
    """The report of a backward that raises an exception, or returns other shapes, where its forward answers."""
    error, other = failed.error, ""
    if how.why:
        from npformer.check.causes.signatures import other_form  # its modules are loaded only if they are needed

        other = other_form(failed.checked, random_upstreams(failed.checked, how.seed, 1)[0], is_failing=True)
    place = f" in {where}" if (where := place_of(error)) else ""
    raised = f"backward raises {type(error).__name__}{place}, where forward answers: {error}"
    problem = other or (str(error) if isinstance(error, ShapeError) else raised)
    return without_gradients(failed.checked, problem, "backward gives no gradient here")


def _points(sample: Sample | None, sizes: Sized | None, seed: int) -> Iterator[tuple[str, Sequence[Any]]]:
    """(name, inputs) of each point that sample draws, and of each size."""
    if sample is not None:
        for i in range(SAMPLES):
            yield f"sample {i + 1}", tuple(sample(np.random.default_rng([seed, 6, i])))
    if sizes is not None:
        for n in SIZES:
            yield f"size {n}", tuple(sizes(n))


def _merged(report: Report, others: Sequence[tuple[str, Report]]) -> Report:
    """One report with the worst row of all points for each tensor, which names its point."""
    rows: dict[str, Row] = {row.tensor: row for row in report.rows}
    problems, notes = list(report.problems), list(report.notes)
    for where, other in others:
        for row in other.rows:
            if row.tensor not in rows or _gravity(row) > _gravity(rows[row.tensor]):
                rows[row.tensor] = replace(row, note=f"{row.note}; at {where}" if row.note else f"at {where}")
        problems += [f"{problem} (at {where})" for problem in other.problems if problem not in report.problems]
        notes += [note for note in other.notes if note not in notes]
    return replace(report, rows=tuple(rows.values()), problems=tuple(problems), notes=tuple(notes))


def _gravity(row: Row) -> tuple[bool, float]:
    return not row.ok, row.scaled_error if np.isfinite(row.scaled_error) else np.inf


def _explained(report: Report, target: Any, inputs: Sequence[Any], how: CheckOptions) -> Report:
    """The report of a kernel of low precision. Wrong rows get a cause if the kernel can run in float64."""
    wrong = [row.tensor for row in report.wrong]
    if not how.why or not wrong:
        return report
    exact = [x.astype(np.float64) if isinstance(x, np.ndarray) and is_float(x) else x for x in inputs]
    try:
        if isinstance(how.reference, tuple) or hasattr(how.reference, "backward"):
            from npformer.check.causes.diagnosis import declared  # its modules are loaded only if they are needed

            subject = Subject(target, exact, how.options, how.device, how.names, structure=how.structure)
            return report.explained(declared(subject, how.reference, wrong, how.seed))
        found = {} if how.precision == "float64" else at_one_point(target, exact, how).causes
    except Exception:  # it computes in its own precision, whatever its inputs
        return report
    return report.explained({t: cause for t, cause in found.items() if t in wrong})


def _their_part(error: Exception) -> TracebackType | None:
    """The traceback from the caller's own code on; all of it if it has no such frame."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        trace = trace.tb_next
    return trace or error.__traceback__
