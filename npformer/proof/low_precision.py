"""Judges kernels in float32, float16 and bfloat16 by a reference in float64, within the limits of the precision.

A kernel's own forward is too coarse for differences: the best step in float32 gives a slope to about 1e-5, and only if
outputs are differenced before they are summed. So the witnesses find the gradients of a *reference*, a pair or a
forward that computes the same in float64, and the kernel's gradient a_i is right if

    |a_i − n_i| ≤ 8·s_i + λ·u·√N·A_i + φ        λ = 4, φ = λ·u·max(max|n|, rms(r·y)·√N / rms x)

    u    2⁻²⁴ in float32, 2⁻¹¹ in float16, 2⁻⁸ in bfloat16
    s_i  the spread: the change of the reference's gradient, in float64, if inputs and upstream gradient move by at
         most one unit in the last place of the kernel's precision; the largest of 16 moves
    A_i  the entry's reach (``judge.py``); N the number of terms of L, since the errors of N roundings add
         like a random walk (Higham & Mary 2019, SIAM J. Sci. Comput. 41, theorem 3.1)

Without a reference, the kernel's own forward is differenced with steps that suit its precision, and CANNOT TELL
suggests a reference. bfloat16 is no NumPy type: a kernel that rounds to it gets float32 numbers that bfloat16 can
represent, and precision="bfloat16" sets its precision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from npformer.errors import ConfigError
from npformer.percent import percent
from npformer.proof import behaviour
from npformer.proof.fitness import fitness
from npformer.proof.inputs import is_float
from npformer.proof.measures import largest, max_abs, rms, scale_of, terms, worst_at
from npformer.proof.one_point import How
from npformer.proof.oracles import Evidence, Oracle, units
from npformer.proof.report import RIGHT, UNCLEAR, WRONG, Report, Row
from npformer.proof.subject import Subject, Upstream, subject
from npformer.proof.symmetric import with_structure
from npformer.typing import HostArray, HostArrays, Tensors

UNIT = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
LAMBDA = 4.0
MOVES = 16
#: Relative to a tensor's largest entry: a wider limit decides nothing.
TOO_WIDE = 0.2


class _Kernel(NamedTuple):
    """The kernel at the point of the check, and the precision of its numbers."""

    checked: Subject
    precision: str
    u: float


def against_reference(target: Any, reference: Any, inputs: Sequence[Any], precision: str | None, how: How) -> Report:
    """A Report of target's gradients in its own precision; see the head of this file.

    Raises ConfigError if there is neither a precision nor an input that has one, or if shapes of outputs differ.
    """
    precision = _precision(inputs, precision)
    rounded, dtype = [_rounded(x, precision) for x in inputs], "float16" if precision == "float16" else "float32"
    own = with_structure(subject(target, rounded, how.options, how.device, how.names, dtype), how.structure)
    kernel = _Kernel(own, precision, UNIT[precision])
    exact = subject(_as_pair(reference, target), rounded, how.options, how.device, own.input_names)
    truth = with_structure(exact, how.structure)
    _expect_same_outputs(own, truth)
    rng = np.random.default_rng([how.seed, 5, 0])  # not from seed alone, which often generates the inputs
    upstream = tuple(_rounded(np.asarray(rng.normal(size=y.shape)), kernel.precision) for y in truth.outputs({}))
    claimed = {name: np.asarray(g, dtype=np.float64) for name, g in kernel.checked.gradients(upstream).items()}
    problems = behaviour.problems(kernel.checked, [upstream], claimed, kernel.u)
    if reference is None:
        oracle, notes = Oracle(kernel.checked, [upstream], use_complex=False), ["no reference: differences of the "
            f"{kernel.precision} forward itself decide; reference=(a float64 pair or forward) tells more"]  # fmt: skip
        oracle.rounding = max(oracle.rounding, kernel.u)  # bfloat16 numbers come as float32: steps would be too small
    else:
        fit = fitness(truth, [upstream], how.seed)
        oracle, notes = Oracle(truth, [upstream], fit.is_fit), [fit.why] if fit.why else []
        problems += _forward_problem(kernel, truth)
    evidence = {tensor: oracle.every_element(tensor) for tensor in claimed}
    spread = _spread(truth, reference, oracle, evidence, upstream, kernel, how.seed)
    most = largest(found.truth for found in evidence.values())
    rows = [
        _row(tensor, claimed[tensor], found, spread[tensor], _floors(oracle, tensor, found, upstream, kernel), most,
             kernel, has_reference=reference is not None)
        for tensor, found in evidence.items()
    ]  # fmt: skip
    return Report("", tuple(rows), tuple(problems), (*behaviour.notes(kernel.checked), *notes))


def _precision(inputs: Sequence[Any], precision: str | None) -> str:
    dtypes = {str(x.dtype) for x in inputs if is_float(x)}
    found = precision or next((name for name in UNIT for dtype in dtypes if dtype.endswith(name)), None)
    if found is None or found not in UNIT:
        raise ConfigError(
            f"precision: expected one of {', '.join(UNIT)}, or inputs that have it, got {found or ', '.join(dtypes)}; "
            "a float64 kernel needs no reference"
        )
    return found


def _as_pair(reference: Any, target: Any) -> Any:
    """The reference as a pair; a forward alone gets the backward None, which is never called."""
    if reference is None:
        return target
    if isinstance(reference, tuple) or hasattr(reference, "backward"):
        return reference

    def forward(*inputs: Any, **options: Any) -> Any:
        found = reference(*inputs, **options)
        return found if isinstance(found, tuple) and len(found) == 2 else (found, None)

    return forward, None


def _rounded(x: Any, precision: str) -> Any:
    """x rounded to the precision; anything but a float array unchanged."""
    if not is_float(x) or not isinstance(x, np.ndarray):
        return x
    if precision != "bfloat16":
        return x.astype(precision).astype(np.float64)
    bits = x.astype(np.float32).view(np.uint32)
    even = (bits >> 16) & 1
    return ((bits + 0x7FFF + even) & np.uint32(0xFFFF0000)).astype(np.uint32).view(np.float32).astype(np.float64)


def _expect_same_outputs(kernel: Subject, truth: Subject) -> None:
    ours, theirs = ([y.shape for y in each.outputs({})] for each in (truth, kernel))
    if ours != theirs:
        raise ConfigError(f"reference: expected outputs of the kernel's shapes, {theirs}, got {ours}")


def _forward_problem(kernel: _Kernel, truth: Subject) -> list[str]:
    """Problems for outputs that differ from the reference's, whose gradients then belong to another function."""
    for i, (y, expected) in enumerate(zip(kernel.checked.outputs({}), truth.outputs({}), strict=True)):
        if not np.all(np.isfinite(y)) and np.all(np.isfinite(expected)):
            return [
                f"output {i} overflows: {int(np.sum(~np.isfinite(y)))} of {y.size} entries are not finite in "
                f"{kernel.precision}, all are in float64"
            ]
        moved = [truth.outputs(_moved(truth.tensors, kernel.u, k))[i] for k in range(MOVES)]
        spread = np.max([np.abs(m - expected) for m in moved], axis=0)
        most = max_abs(expected)
        allowed = 8 * spread + LAMBDA * kernel.u * np.sqrt(y.size + 1) * most
        off = np.abs(np.asarray(y, dtype=np.float64) - expected)
        if np.any(off > allowed):
            return [
                f"output {i} is not the reference's: off by {float(np.max(off)) / (most or 1):.1e} of the largest, "
                f"more than {kernel.precision} explains"
            ]
    return []


def _moved(tensors: Tensors, u: float, seed: int) -> HostArrays:
    rng = np.random.default_rng([seed, 7])
    return {name: np.asarray(x * (1 + 2 * u * rng.uniform(-1, 1, size=x.shape))) for name, x in tensors.items()}


def _spread(
    truth: Subject,
    reference: Any,
    oracle: Oracle,
    evidence: Mapping[str, Evidence],
    upstream: Upstream,
    kernel: _Kernel,
    seed: int,
) -> HostArrays:
    """s_i of every tensor."""
    most = {tensor: np.zeros(found.truth.shape[1:]) for tensor, found in evidence.items()}
    if reference is None:
        return most
    has_backward = isinstance(reference, tuple) or hasattr(reference, "backward")
    own = truth.gradients(upstream) if has_backward else {n: found.truth[0] for n, found in evidence.items()}
    for k in range(MOVES):
        at = _moved(truth.tensors, kernel.u, seed + k)
        r = tuple(np.asarray(x) for x in _moved(dict(enumerate(upstream)), kernel.u, seed + k).values())  # type: ignore[arg-type]
        gradients = truth.gradients(r, at) if has_backward else _by_witness(truth, oracle, r, at)
        for tensor in most:
            most[tensor] = np.maximum(most[tensor], np.abs(gradients[tensor] - own[tensor]))
    return most


def _by_witness(truth: Subject, oracle: Oracle, upstream: Upstream, at: HostArrays) -> HostArrays:
    """All gradients at another point, by the better witness."""
    there = Oracle(truth, [upstream], oracle.use_complex)
    found = {}
    for tensor, x in truth.tensors.items():
        gradient = np.zeros(x.shape)
        for index, direction in units(x.shape):
            ask = there.complex_step if oracle.use_complex else there.extrapolated
            gradient[index] = ask(tensor, direction, at).value[0]
        found[tensor] = gradient
    return found


def _floors(oracle: Oracle, tensor: str, found: Evidence, upstream: Upstream, kernel: _Kernel) -> HostArray:
    """λ·u·√N·A_i + φ of every entry."""
    outputs = oracle.subject.outputs({})
    typical = rms(oracle.subject.tensors[tensor]) or 1.0
    n = sum(y.size for y in outputs)
    floor = LAMBDA * kernel.u * max(max_abs(found.truth), terms(upstream, outputs) / n**0.5 / typical)
    return np.asarray(
        LAMBDA * kernel.u * np.sqrt(n) * found.reach[0]
        + floor
        + 8 * found.central_error[0] * (found.by_complex is None)
    )


def _row(
    tensor: str,
    a: HostArray,
    found: Evidence,
    spread: HostArray,
    floor: HostArray,
    most: float,
    kernel: _Kernel,
    has_reference: bool,
) -> Row:
    n, limit = found.truth[0], 8 * spread + floor
    scale = scale_of(n, most)
    off = np.abs(a - n)
    share = np.nan_to_num(off / np.where(limit == 0, 1.0, limit), nan=np.inf)
    place = worst_at(share)
    is_right, is_told = bool(share[place] <= 1), bool(np.median(limit) <= TOO_WIDE * scale)
    verdict = WRONG if not is_right else RIGHT if is_told else UNCLEAR
    note = f"in {kernel.precision}, {percent(float(share[place]), 0)} of what that allows"
    if verdict == UNCLEAR:
        help_ = "" if has_reference else "; give reference=, a float64 pair or forward"
        note = f"{kernel.precision} allows {float(np.median(limit)) / scale:.0e} of the largest entry here{help_}"
    if not np.all(np.isfinite(a)):
        note = f"{int(np.sum(~np.isfinite(a)))} of {a.size} entries are not finite in {kernel.precision}"
    values = (float(off[place] / scale), float(off[place] / scale), place, float(a[place]), float(n[place]), scale)
    return Row(tensor, n.shape, n.size, *values, verdict, note)
