"""The gradient check: analytic gradients against two independent witnesses, tensor by tensor.

A tensor's gradient is *right* if the complex step agrees to 1e-10 and central differences to 1e-7
of the scaled error (``report.Row``). Elements at which the central differences at h and h/2 disagree
lie at a kink or in noise: there the witness is dropped, and the complex step alone decides; without one
(a forward that cannot take complex numbers) a sweep over h does (``judge.py``). A check that could not
have failed is refused or *proves nothing* (``vacuity.py``). A wrong gradient is explained
(``diagnosis.py``).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from npformer.backend import Device
from npformer.errors import DTypeError, ShapeError
from npformer.proof.clues import clues_of, with_reference
from npformer.proof.diagnosis import Clues, diagnose
from npformer.proof.judge import COMPLEX_TOLERANCE, Judge
from npformer.proof.oracles import SAME, Witness, along_directions, every_element
from npformer.proof.report import NOTHING, WRONG, Report, Row
from npformer.proof.subject import Host, Subject, subject
from npformer.proof.vacuity import refuse_length_one, refuse_wide, why_blind

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
    tolerance: float = COMPLEX_TOLERANCE,
    allow_length_one: bool = False,
    explain: bool = True,
    device: Device | None = None,
    **options: Any,
) -> Report:
    """Check every gradient of target at these inputs. Returns a Report; nothing of target is changed.

    target: a pair (``npf.Pair`` or a tuple ``(forward, backward)``), or a layer or model, your own
    included: an object with ``forward(*inputs) -> (y, cache)``, ``backward(dy, cache)`` and, if it has
    parameters, ``named_parameters()`` yielding (name, object with data and grad). A parameter that is
    constant (γ = 1, b = 0) is moved a little for the check: a constant hides mistakes.
    inputs: float arrays are checked, in order against what backward returns; all else is passed on.
    options go to forward (``key=``, ``mask=``, …).
    elementwise: check each element (default for at most 2,000), or random directions, per tensor.
    complex_step False leaves that witness out, for a forward that drops imaginary parts (abs, var, …).
    tolerance: of the scaled error against the complex step (1e-7 against central differences).
    explain False says what is wrong without looking for why, which takes longer than the check.
    allow_length_one: do not refuse inputs of length 1 along batch or sequence.

    Everything is computed in float64, whatever the dtype of target. Raises ShapeError if backward
    returns another number of gradients, or gradients of other shapes, than there are float inputs;
    DTypeError if a gradient is not float64; ConfigError for a tolerance that would let anything pass.
    """
    refuse_wide(tolerance)
    checked = subject(target, inputs, options, device)
    _expect_something(checked)
    if not allow_length_one:
        refuse_length_one(inputs, checked.input_names)
    upstream = random_upstream(checked, seed)
    gradients = checked.gradients(upstream)
    _expect_fitting(checked, gradients)
    small = sum(x.size for x in checked.tensors.values()) <= MANY_ELEMENTS
    directions = None if (small if elementwise is None else elementwise) else random_directions(checked, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("error", np.exceptions.ComplexWarning)  # an imaginary part dropped, with notice
        same = SAME if tolerance <= SAME else 0.0  # else a claim that passes might be too far from central differences
        witnesses = _witnesses(checked, gradients, upstream, directions, complex_step, same)
        largest = max(float(np.max(np.abs(w.truth), initial=0.0)) for _, w in witnesses.values())
        judge = Judge(checked, upstream, largest, tolerance, explain)
        rows = [judge.row(t, *witnesses[t], None if directions is None else directions[t]) for t in witnesses]
        report = Report(name or getattr(target, "name", None) or type(target).__name__, tuple(rows))
        noise = _noise(checked, upstream)
        if largest <= noise and all(np.max(np.abs(claim), initial=0.0) <= noise for claim, _ in witnesses.values()):
            return _proving_nothing(report.rows, report, "every gradient of this check is 0")
        if explain and any(row.verdict == WRONG for row in rows):
            clues = with_reference(clues_of(target, inputs, options), checked, inputs, options, upstream)
            known = {t: w.truth for t, (_, w) in witnesses.items()} if directions is None else {}
            truths = known or _truths(checked, rows, upstream, complex_step)
            report = _diagnosed(report, checked, gradients, truths, clues)
    blind = why_blind({n: checked.tensors[n] for n in checked.input_names if n in checked.tensors})
    return _proving_nothing([row for row in report.rows if row.ok], report, blind) if blind else report


def _noise(checked: Subject, upstream: tuple[Host, ...]) -> float:
    """Gradients below this are 0 but for the rounding of the terms of L = Σ r·y."""
    return 1e-13 * sum(float(np.sum(np.abs(r * y))) for r, y in zip(upstream, checked.outputs({}), strict=True))


def _proving_nothing(rows: Sequence[Row], report: Report, why: str) -> Report:
    """The report with these of its rows said to prove nothing."""
    meant = {row.tensor for row in rows}
    changed = (
        replace(r, verdict=NOTHING, note=why, cause="", diagnosis="") if r.tensor in meant else r for r in report.rows
    )
    return replace(report, rows=tuple(changed))


def _expect_something(checked: Subject) -> None:
    """Raise ShapeError if there is no tensor to check, or an empty one."""
    if not checked.tensors:
        raise ShapeError("inputs: expected at least one float array, or a target with parameters, got nothing to check")
    for tensor, value in checked.tensors.items():
        if value.size == 0:
            raise ShapeError(
                f"{tensor}: expected at least one element, got {value.shape}; an empty check proves nothing"
            )


def _expect_fitting(checked: Subject, gradients: dict[str, Host]) -> None:
    """Raise ShapeError or DTypeError unless every gradient has the shape of its tensor and is float64."""
    for tensor, value in checked.tensors.items():
        gradient = gradients[tensor]
        if gradient.shape != value.shape:
            raise ShapeError(f"gradient of {tensor}: expected {value.shape}, got {gradient.shape}")
        if gradient.dtype != value.dtype:
            raise DTypeError(f"gradient of {tensor}: expected float64, as the input was given, got {gradient.dtype}")


def random_upstream(checked: Subject, seed: int) -> tuple[Host, ...]:
    rng = np.random.default_rng(seed)
    return tuple(np.asarray(rng.normal(size=y.shape)) for y in checked.outputs({}))


def random_directions(checked: Subject, seed: int) -> dict[str, list[Host]]:
    """A few directions for each tensor: one over all tensors would hide a small bias inside a large matrix."""
    rng = np.random.default_rng([seed, 1])
    return {
        tensor: [np.asarray(rng.normal(size=x.shape)) for _ in range(DIRECTIONS)]
        for tensor, x in checked.tensors.items()
    }


def _witnesses(
    checked: Subject,
    gradients: dict[str, Host],
    upstream: tuple[Host, ...],
    directions: dict[str, list[Host]] | None,
    use_complex: bool,
    same: float,
) -> dict[str, tuple[Host, Witness]]:
    """For each tensor what is claimed and what the oracles say: by element, or along directions."""
    found = {}
    for tensor, gradient in gradients.items():
        if directions is None:
            found[tensor] = gradient, every_element(checked, tensor, upstream, use_complex, same)
        else:
            claimed = np.array([np.sum(gradient * direction) for direction in directions[tensor]])
            found[tensor] = claimed, along_directions(checked, tensor, directions[tensor], upstream, use_complex, same)
    return found


def _truths(checked: Subject, rows: list[Row], upstream: tuple[Host, ...], use_complex: bool) -> dict[str, Host]:
    """The true gradients, element by element, of the wrong tensors that are small enough."""
    wrong = [row.tensor for row in rows if row.verdict == WRONG and row.elements <= MANY_ELEMENTS]
    return {tensor: every_element(checked, tensor, upstream, use_complex).truth for tensor in wrong}


def _diagnosed(
    report: Report, checked: Subject, gradients: dict[str, Host], truths: dict[str, Host], clues: Clues
) -> Report:
    """The report with an explanation in each row that is wrong."""
    found = diagnose({tensor: gradients[tensor] for tensor in truths}, truths, clues)
    rows = tuple(
        replace(row, cause=found[row.tensor].cause, diagnosis=found[row.tensor].text)
        if row.verdict == WRONG and row.tensor in found
        else row
        for row in report.rows
    )
    return replace(report, rows=rows)
