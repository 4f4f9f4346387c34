"""What a layer promises beside the right numbers: no hidden state, nothing overwritten, gradients added up."""

from __future__ import annotations

from typing import Any

import numpy as np

from npformer.errors import CacheUsedError
from npformer.functional import AttentionMask
from npformer.proof.certificates.check import check
from npformer.proof.certificates.compare import same_bits, same_to_rounding
from npformer.proof.certificates.masks import other_tokens
from npformer.proof.certificates.result import DoesNotApply, Violation
from npformer.proof.certificates.trial import Run, Trial
from npformer.proof.subject import Host, _like


@check("determinism", "two runs on the same inputs give the same bits")
def determinism(trial: Trial) -> Violation | None:
    """With a random key, too: randomness is an argument."""
    first, second = trial.run(), trial.run()
    return same_bits(_everything(first), _everything(second))


@check("linear-backward", "backward is linear in the upstream gradient")
def linear_backward(trial: Trial) -> Violation | None:
    """B(a·dy₁ + b·dy₂) = a·B(dy₁) + b·B(dy₂): the derivative at a point is a linear map."""
    first = trial.run()
    upstream = trial.random_upstream(first.outputs, use=5)
    second = trial.run(upstream=upstream)
    if not first.gradients:
        raise DoesNotApply("it has no gradients: no float input and no parameter")
    a, b = 1.7, -0.6
    both = trial.run(upstream={name: a * dy + b * upstream[name] for name, dy in first.upstream.items()})
    expected = {name: a * x + b * second.gradients[name] for name, x in first.gradients.items()}
    return same_to_rounding(_gradients(expected), _gradients(both.gradients), first.upstream)


@check("accumulation", "backward adds to the gradients of parameters, it does not assign")
def accumulation(trial: Trial) -> Violation | None:
    """Start from random gradients G: two forwards and backwards leave G + 2g, and the same dx as from zero."""
    if not trial.parameters:
        raise DoesNotApply("it has no parameters")
    once = trial.run()
    trial.reset()
    for owner in trial.owners.values():
        owner.grad = trial.device.array(trial.rng(6).normal(size=owner.data.shape), "float64")
    start = trial.parameter_gradients()
    for times in (1, 2):
        y, cache = trial.forward()
        inputs = trial.backward(y, cache, once.upstream)
        expected = {name: g + times * once.gradients[name] for name, g in start.items()}
        expected |= {name: once.gradients[name] for name in inputs}
        violation = same_to_rounding(
            _gradients(expected), _gradients(inputs | trial.parameter_gradients()), once.upstream
        )
        if violation is not None:
            return violation._replace(where=f"{violation.where} after {times} backward of gradients that were not 0")
    return None


@check("no-mutation", "inputs, upstream gradient, outputs and parameters are left as they are")
def no_mutation(trial: Trial) -> Violation | None:
    """Inputs and upstream go in read-only (on NumPy); afterwards every bit is compared."""
    trial.reset()
    placed, options = trial.placed(), trial.placed_options()
    _make_read_only(placed)
    before = _held(trial, placed, options)
    y, cache = trial.call(placed, options)
    outputs = trial.outputs_of(y)
    parts = [trial.device.array(part, "float64") for part in trial.random_upstream(outputs).values()]
    _make_read_only(parts)
    upstream = _host(trial, "upstream gradient", parts)
    trial.function("backward")(_like(y, parts), cache)
    after = _held(trial, placed, options) | _host(trial, "upstream gradient", parts) | trial.outputs_of(y)
    return same_bits(before | upstream | outputs, after)


@check("used-cache", "a layer's cache works once and is then refused; a pair's gives the same bits again")
def used_cache(trial: Trial) -> Violation | None:
    """Activations are freed as backward runs, so a second backward would use what is left of the first."""
    trial.reset()
    y, cache = trial.forward()
    upstream = trial.random_upstream(trial.outputs_of(y))
    first = trial.backward(y, cache, upstream)
    if trial.is_pair:
        return same_bits(_gradients(first), _gradients(trial.backward(y, cache, upstream)))
    try:
        trial.backward(y, cache, upstream)
    except CacheUsedError:
        return None
    except Exception as error:
        kind = f"{type(error).__name__}: {error}"
        return Violation("second backward", note=f"expected CacheUsedError, got {kind}")
    return Violation("second backward", note="expected CacheUsedError, got gradients; keep caches in a CacheStack")


@check("reuse", "used at two places, the second forward does not disturb the first one's backward")
def reuse(trial: Trial) -> Violation | None:
    """Forward A, forward B, then both backwards, in either order: the gradients of A and B run alone, and their sum."""
    other = _other_inputs(trial)
    a = trial.run()
    b = trial.run(other, upstream=trial.random_upstream(a.outputs, use=5))  # equal ones would hide a mix-up
    total = {name: a.gradients[name] + b.gradients[name] for name in trial.parameters}
    for b_first in (True, False):
        trial.reset()
        y_a, cache_a = trial.forward()
        kept = trial.outputs_of(y_a)
        y_b, cache_b = trial.forward(other)
        order = [("A", y_a, cache_a, a), ("B", y_b, cache_b, b)]
        violation = same_bits(kept, trial.outputs_of(y_a))
        for name, y, cache, alone in order[::-1] if b_first else order:
            found = trial.backward(y, cache, alone.upstream)
            expected = {x: alone.gradients[x] for x in found}
            pair = [_gradients(x, f", use {name}") for x in (expected, found)]
            violation = violation or same_bits(*pair)
        added = _gradients(trial.parameter_gradients())
        violation = violation or same_to_rounding(_gradients(total), added, a.upstream)
        if violation is not None:
            return violation
    return None


@check("shape-and-dtype", "each float input and parameter has one gradient, of its shape and dtype, and finite")
def shape_and_dtype(trial: Trial) -> Violation | None:
    """The number of gradients, their shapes, float64 for float64, and no NaN or infinity."""
    run = trial.run()
    tensors = trial.tensors
    if not tensors:
        raise DoesNotApply("it has no float input and no parameter")
    for name, gradient in run.gradients.items():
        where, shape = f"gradient of {name}", tensors[name].shape
        if gradient.shape != shape or gradient.dtype != np.float64:
            return Violation(where, note=f"expected {shape} float64, got {gradient.shape} {gradient.dtype}")
        if not np.all(np.isfinite(gradient)):
            return Violation(where, note="expected finite numbers, got NaN or infinity")
    return None


def _everything(run: Run) -> dict[str, Host]:
    return run.outputs | _gradients(run.gradients)


def _gradients(found: dict[str, Host], suffix: str = "") -> dict[str, Host]:
    return {f"gradient of {name}{suffix}": x for name, x in found.items()}


def _other_inputs(trial: Trial) -> dict[str, Any]:
    """Inputs of the same shapes, floats moved and tokens exchanged. Raises DoesNotApply if nothing can change."""
    rng = trial.rng(7)
    changed: dict[str, Any] = {
        name: trial.inputs[name] + 0.5 * rng.normal(size=trial.inputs[name].shape) for name in trial.float_inputs
    }
    for name, x in trial.inputs.items():
        if isinstance(x, np.ndarray) and x.dtype.kind in "iu" and len(np.unique(x)) > 1:
            changed[name] = other_tokens(x)
    if not changed:
        raise DoesNotApply("it has no input that could be another one at the second place")
    return changed


def _make_read_only(placed: list[Any]) -> None:
    for x in placed:
        if isinstance(x, np.ndarray):
            x.flags.writeable = False


def _held(trial: Trial, placed: list[Any], options: dict[str, Any]) -> dict[str, Host]:
    """Copies of all that a run may read but not write: inputs, masks, parameters."""
    given = dict(zip(trial.inputs, placed, strict=True)) | options
    found = {f"input {name}": x for name, x in given.items() if hasattr(x, "shape") and hasattr(x, "dtype")}
    for name, value in given.items():
        if isinstance(value, AttentionMask) and value.key_visible is not None:
            found[f"{name}.key_visible"] = value.key_visible
    found = {name: np.array(trial.device.host(x)) for name, x in found.items()}
    parameters = {f"parameter {name}": np.array(trial.device.host(p.data)) for name, p in trial.parameters.items()}
    return found | parameters


def _host(trial: Trial, name: str, parts: list[Any]) -> dict[str, Host]:
    return {f"{name} {i}": np.array(trial.device.host(part)) for i, part in enumerate(parts)}
