"""Which input may influence which output. A gradient check misses this: a miswired network has right gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from npformer.check.invariants.invariant import Governed, Probe, governed, invariant, other_tokens, taken, token_inputs
from npformer.check.properties import DoesNotApply, Equation, Equations
from npformer.functional import AttentionMask
from npformer.typing import HostArray, Values


@invariant("causality", "what comes later changes no bit of the outputs before it")
def causality(probe: Probe) -> Equations:
    """Change everything from step t on, for each t; outputs that may not see step t keep their bits."""
    still = _without_batch_statistics(probe)
    before = probe.outputs_at(still)
    anything_moved = False
    for where, changed, rows in _later_changes(probe):
        after = probe.outputs_at(still | changed)
        early, late = ({name: y[..., :rows, :] for name, y in run.items()} for run in (before, after))
        yield Equation(early, late, f"{{}}, {where} changed", True)
        anything_moved |= not all(np.array_equal(y, after[name]) for name, y in before.items())
    if not anything_moved:
        raise DoesNotApply("no later step changes any output at all: it would prove nothing")


def _later_changes(probe: Probe) -> Iterator[tuple[str, Values, int]]:
    """(what is changed, the change, how many outputs must not notice)."""
    names = token_inputs(probe)
    if names is not None and (names[0] != names[1] or getattr(probe.target, "causal", False) is True):
        tokens = np.asarray(probe.values[names[1]])
        for t in range(1, tokens.shape[1]):
            later = np.arange(tokens.shape[1]) >= t
            yield f"{names[1]}[:, {t}:]", {names[1]: np.where(later, other_tokens(tokens), tokens)}, t
        return
    causal = [one for one in governed(probe) if one.mask.causal]
    if not causal:
        raise DoesNotApply("it takes no (src, tgt_in) tokens, is given no causal mask and has no causal = True")
    for one in causal:
        yield from _later_steps(probe, one)


def _later_steps(probe: Probe, one: Governed) -> Iterator[tuple[str, Values, int]]:
    length = probe.values[one.inputs[0]].shape[-2]
    for t in range(1 + one.mask.query_offset, length):
        later = (np.arange(length) >= t)[:, None]
        changed = {
            name: probe.values[name] + later * probe.rng(3).normal(size=probe.values[name].shape) for name in one.inputs
        }
        yield f"{' and '.join(one.inputs)} from step {t} on", changed, t - one.mask.query_offset


def _without_batch_statistics(probe: Probe) -> Values:
    """What to change for inference if there is a batch norm, in whose training every token affects every other."""
    if not any(getattr(probe.target, "named_buffers", list)()):
        return {}
    return probe.without_dropout() | ({"training": False} if "training" in probe.values else {})


@invariant("batch-order", "the order of the sequences in a batch does not matter")
def batch_order(probe: Probe) -> Equations:
    """Rotate the batch: outputs and gradients of inputs rotate, those of parameters stay (to rounding)."""
    batch, size = batched(probe)
    rows = np.roll(np.arange(size), 1)
    still = probe.without_dropout()
    run = probe.run(still)
    upstream = {name: _rows_of(dy, rows, size) for name, dy in run.upstream.items()}
    again = probe.run(still | _taken_from(probe, batch, rows), upstream)
    expected = {name: _rows_of(y, rows, size) for name, y in run.outputs.items()}
    rotated = {name: x[rows] if name in batch else x for name, x in run.gradients.items()}
    yield Equation(expected, again.outputs, "{}")
    yield Equation(rotated, again.gradients, upstream=[*run.upstream.values()])


@invariant("sequences-alone", "a batch is its sequences run one by one: outputs side by side, gradients summed")
def sequences_alone(probe: Probe) -> Equations:
    """Run each sequence as a batch of one; this reveals a gradient divided by the batch size."""
    if probe.values.get("training") is True:
        raise DoesNotApply("it normalises by the batch's statistics: by definition no sequence is alone")
    batch, size = batched(probe)
    still = probe.without_dropout()
    run = probe.run(still)
    alone = []
    for b in range(size):
        rows = slice(b, b + 1)
        upstream = {name: dy[rows] for name, dy in run.upstream.items()}
        alone.append(probe.run(still | _taken_from(probe, batch, rows), upstream))
    outputs = {name: np.concatenate([one.outputs[name] for one in alone]) for name in run.outputs}
    gradients = {
        name: np.concatenate([one.gradients[name] for one in alone])
        if name in batch
        else np.sum([one.gradients[name] for one in alone], axis=0)
        for name in run.gradients
    }
    yield Equation(outputs, run.outputs, "{}")
    yield Equation(gradients, run.gradients, upstream=[*run.upstream.values()])


def batched(probe: Probe) -> tuple[set[str], int]:
    """The names of the inputs that have one entry per sequence, and B. Raises DoesNotApply."""
    if probe.is_pair:
        raise DoesNotApply("the inputs of a pair do not say which of their axes is the batch")
    inputs: Values = {name: probe.values.get(name) for name in probe.input_names}
    arrays = {name: x for name, x in inputs.items() if getattr(x, "ndim", 0) >= 2}
    size = next(iter(arrays.values())).shape[0] if arrays else 0
    if size < 2:
        raise DoesNotApply("it is given a single sequence; give it a batch of at least two")
    return {name for name, x in arrays.items() if x.shape[0] == size}, size


def _taken_from(probe: Probe, batch: set[str], rows: Any) -> Values:
    """Inputs and options of some sequences of the batch: the arrays of batch, masks, and options (B, T)."""
    inputs = set(probe.input_names) - batch
    return {
        name: taken(x, rows)
        for name, x in probe.values.items()
        if name in batch or isinstance(x, AttentionMask) or (name not in inputs and getattr(x, "ndim", 0) == 2)
    }


def _rows_of(y: HostArray, rows: Any, size: int) -> HostArray:
    return y[rows] if y.ndim and y.shape[0] == size else y
