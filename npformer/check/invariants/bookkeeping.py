"""A layer's promises besides right numbers: no hidden state, nothing overwritten, gradients accumulated."""

from __future__ import annotations

from typing import Any

import numpy as np

from npformer.check.checkable import unpacked
from npformer.check.inputs import like
from npformer.check.invariants.invariant import invariant
from npformer.check.invariants.probe import Probe, ProbeRun, other_tokens
from npformer.check.invariants.violation import DoesNotApply, Violation, gradients_of, same_bits, same_to_rounding
from npformer.errors import CacheUsedError
from npformer.functional import AttentionMask
from npformer.typing import HostArrays


@invariant("determinism", "two runs on the same inputs give the same bits")
def determinism(probe: Probe) -> Violation | None:
    """With a random key, too: randomness is an argument."""
    first, second = probe.run(), probe.run()
    return same_bits(_everything(first), _everything(second))


@invariant("linear-backward", "backward is linear in the upstream gradient")
def linear_backward(probe: Probe) -> Violation | None:
    """B(a·dy₁ + b·dy₂) = a·B(dy₁) + b·B(dy₂): the derivative at a point is a linear map."""
    first = probe.run()
    upstream = probe.random_upstream(first.outputs, use=5)
    second = probe.run(upstream=upstream)
    if not first.gradients:
        raise DoesNotApply("it has no gradients: no float input and no parameter")
    a, b = 1.7, -0.6
    both = probe.run(upstream={name: a * dy + b * upstream[name] for name, dy in first.upstream.items()})
    expected = {name: a * x + b * second.gradients[name] for name, x in first.gradients.items()}
    return same_to_rounding(gradients_of(expected), gradients_of(both.gradients), first.upstream)


@invariant("accumulation", "backward adds to the gradients of parameters, it does not assign")
def accumulation(probe: Probe) -> Violation | None:
    """Start from random gradients G: two forwards and backwards leave G + 2g, and the same dx as from zero."""
    if not probe.parameters:
        raise DoesNotApply("it has no parameters")
    once = probe.run()
    probe.reset()
    for owner in probe.owners.values():
        owner.grad = probe.device.array(probe.rng(6).normal(size=owner.data.shape), "float64")
    start = probe.parameter_gradients()
    for times in (1, 2):
        y, cache = probe.forward()
        inputs = probe.backward(y, cache, once.upstream)
        expected = {name: g + times * once.gradients[name] for name, g in start.items()}
        expected |= {name: once.gradients[name] for name in inputs}
        violation = same_to_rounding(
            gradients_of(expected), gradients_of(inputs | probe.parameter_gradients()), once.upstream
        )
        if violation is not None:
            return violation._replace(where=f"{violation.where} after {times} backward of gradients that were not 0")
    return None


@invariant("no-mutation", "inputs, upstream gradient, outputs and parameters are left as they are")
def no_mutation(probe: Probe) -> Violation | None:
    """Inputs and upstream go in read-only (on NumPy); afterwards every bit is compared."""
    probe.reset()
    placed, options = probe.placed(), probe.placed_options()
    _make_read_only(placed)
    before = _held(probe, placed, options)
    y, cache = probe.function("forward")(*placed, **options)
    outputs = probe.outputs_of(y)
    parts = [probe.device.array(part, "float64") for part in probe.random_upstream(outputs).values()]
    _make_read_only(parts)
    upstream = _host(probe, "upstream gradient", parts)
    probe.function("backward")(like(y, parts), cache)
    after = _held(probe, placed, options) | _host(probe, "upstream gradient", parts) | probe.outputs_of(y)
    return same_bits(before | upstream | outputs, after)


@invariant("used-cache", "a layer's cache works once and is then refused; a pair's gives the same bits again")
def used_cache(probe: Probe) -> Violation | None:
    """Activations are freed as backward runs, so a second backward would use incomplete data."""
    probe.reset()
    y, cache = probe.forward()
    upstream = probe.random_upstream(probe.outputs_of(y))
    first = probe.backward(y, cache, upstream)
    if probe.is_pair:
        return same_bits(gradients_of(first), gradients_of(probe.backward(y, cache, upstream)))
    try:
        probe.backward(y, cache, upstream)
    except CacheUsedError:
        return None
    except Exception as error:
        kind = f"{type(error).__name__}: {error}"
        return Violation("second backward", note=f"expected CacheUsedError, got {kind}")
    return Violation("second backward", note="expected CacheUsedError, got gradients; keep caches in a CacheStack")


@invariant("reuse", "used at two places, the second forward does not disturb the first one's backward")
def reuse(probe: Probe) -> Violation | None:
    """Forward A, forward B, then both backwards, in either order: the gradients of A and B run alone, and their sum."""
    other = _other_inputs(probe)
    a = probe.run()
    b = probe.run(other, upstream=probe.random_upstream(a.outputs, use=5))  # equal ones would hide a confusion
    total = {name: a.gradients[name] + b.gradients[name] for name in probe.parameters}
    for b_first in (True, False):
        probe.reset()
        y_a, cache_a = probe.forward()
        kept = probe.outputs_of(y_a)
        y_b, cache_b = probe.forward(other)
        order = [("A", y_a, cache_a, a), ("B", y_b, cache_b, b)]
        violation = same_bits(kept, probe.outputs_of(y_a))
        for name, y, cache, alone in order[::-1] if b_first else order:
            gradients = probe.backward(y, cache, alone.upstream)
            expected = {x: alone.gradients[x] for x in gradients}
            pair = [gradients_of(x, f", use {name}") for x in (expected, gradients)]
            violation = violation or same_bits(*pair)
        added = gradients_of(probe.parameter_gradients())
        violation = violation or same_to_rounding(gradients_of(total), added, a.upstream)
        if violation is not None:
            return violation
    return None


@invariant("shape-and-dtype", "each float input and parameter has one gradient, of its shape and dtype, and finite")
def shape_and_dtype(probe: Probe) -> Violation | None:
    """The number of gradients, their shapes, float64 for float64, and no NaN or infinity."""
    run = probe.run()
    tensors = probe.tensors
    if not tensors:
        raise DoesNotApply("it has no float input and no parameter")
    for name, gradient in run.gradients.items():
        where, shape = f"gradient of {name}", tensors[name].shape
        if gradient.shape != shape or gradient.dtype != np.float64:
            return Violation(where, note=f"expected {shape} float64, got {gradient.shape} {gradient.dtype}")
        if not np.all(np.isfinite(gradient)):
            return Violation(where, note="expected finite numbers, got NaN or infinity")
    return None


def _everything(run: ProbeRun) -> HostArrays:
    return run.outputs | gradients_of(run.gradients)


def _other_inputs(probe: Probe) -> dict[str, Any]:
    """Inputs of the same shapes, with moved floats and exchanged tokens. Raises DoesNotApply if nothing can change."""
    rng = probe.rng(7)
    changed: dict[str, Any] = {
        name: probe.inputs[name] + 0.5 * rng.normal(size=probe.inputs[name].shape) for name in probe.float_inputs
    }
    for name, x in probe.inputs.items():
        if isinstance(x, np.ndarray) and x.dtype.kind in "iu" and len(np.unique(x)) > 1:
            changed[name] = other_tokens(x)
    if not changed:
        raise DoesNotApply("it has no input that could be another one at the second place")
    return changed


def _make_read_only(placed: list[Any]) -> None:
    for x in placed:
        if isinstance(x, np.ndarray):
            x.flags.writeable = False


def _held(probe: Probe, placed: list[Any], options: dict[str, Any]) -> HostArrays:
    """Copies of everything that a run may read but not write: inputs, masks, parameters."""
    named = dict(zip(probe.inputs, placed, strict=True)) | unpacked(options)
    arrays = {f"input {name}": x for name, x in named.items() if hasattr(x, "shape") and hasattr(x, "dtype")}
    for name, value in named.items():
        if isinstance(value, AttentionMask) and value.key_visible is not None:
            arrays[f"{name}.key_visible"] = value.key_visible
    arrays = {name: np.array(probe.device.host(x)) for name, x in arrays.items()}
    parameters = {f"parameter {name}": np.array(probe.device.host(p.data)) for name, p in probe.parameters.items()}
    return arrays | parameters


def _host(probe: Probe, name: str, parts: list[Any]) -> HostArrays:
    return {f"{name} {i}": np.array(probe.device.host(part)) for i, part in enumerate(parts)}
