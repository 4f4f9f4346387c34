"""Gradient checks over the catalogue: the complex step, along one random direction in each tensor.

A case ends at its first wrong tensor, since the only question is whether a bug is caught, for a hundred bugs.
`npformer gradcheck` checks element by element, with a second witness.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import groupby
from typing import NamedTuple

import numpy as np

from npformer.check import Case, catalogue
from npformer.check.oracles import COMPLEX_H
from npformer.check.subject import Subject, Upstream, subject
from npformer.lab.museum.checks.check import Check, Program
from npformer.typing import HostArray, HostArrays

TOLERANCE = 1e-9
#: The models that together use every part of a model.
MODELS = ("post, relu, untied", "pre, gelu, tied", "learned positions", "one layer, length 1")


def gradient_checks() -> Iterator[Check]:
    """One check for each operation, each kind of layer, and the whole model."""
    for kind, group in groupby(_cases(), key=_kind):
        cases = tuple(group)
        noun = {"op": "the operation", "layer": "the layer", "model": "the whole model"}[cases[0].group]
        meaning = f"backward of {noun} {kind} is the derivative of its forward"
        yield Check(f"gradient of {kind}", meaning, tuple(partial(_wrong_tensor, case) for case in cases))


def _cases() -> list[Case]:
    """All cases except most models, with cases of one kind next to each other."""
    cases = [case for case in catalogue() if case.group != "model" or case.name.endswith(MODELS)]
    first = {kind: i for i, kind in reversed(list(enumerate(map(_kind, cases))))}
    return sorted(cases, key=lambda case: first[_kind(case)])


def _kind(case: Case) -> str:
    return case.name.partition(":")[0]


def _wrong_tensor(case: Case, program: Program) -> list[str]:
    """The first tensor whose slope along a random direction differs from backward's."""
    gradients: HostArrays = {}
    largest = 0.0
    for tensor, direction, slope, upstream in _slopes(case, program):
        gradients = gradients or _subject(case, program).gradients(upstream)
        largest = max(largest, abs(slope))
        claimed = float(np.sum(gradients[tensor] * direction))
        if not abs(claimed - slope) <= TOLERANCE * max(abs(slope), 1e-3 * largest):  # the bias of keys has slope 0
            return [f"{case.name}: along a direction in {tensor} the slope is {slope:.4g}, backward says {claimed:.4g}"]
    return []


class _Slope(NamedTuple):
    """The slope of L = Σ upstream·y along a direction in one tensor."""

    tensor: str
    direction: HostArray
    slope: float
    upstream: Upstream


def _slopes(case: Case, program: Program) -> Iterator[_Slope]:
    """Each tensor's slope from the forward alone, computed on demand."""
    checked = _subject(case, program)
    rng = np.random.default_rng(5)
    upstream = tuple(np.asarray(rng.normal(size=y.shape)) for y in checked.outputs({}))
    for tensor, x in checked.tensors.items():
        direction = np.asarray(rng.normal(size=x.shape))
        moved = checked.outputs({tensor: x + 1j * COMPLEX_H * direction})
        slope = sum(float(np.sum(r * y.imag)) for r, y in zip(upstream, moved, strict=True)) / COMPLEX_H
        yield _Slope(tensor, direction, slope, upstream)


def _subject(case: Case, program: Program) -> Subject:
    device = program.backend.device
    return subject(case.build(program.backend), case.inputs, dict(case.options), device)
