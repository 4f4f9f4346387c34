"""Fixtures of the layer tests: every layer of the catalogue, and a function to run one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npformer.layers import Layer
from npformer.proof import Case, catalogue

CASES = [case for case in catalogue() if case.group == "layer"]


@pytest.fixture(params=CASES, ids=lambda case: case.name)
def layer_case(request):
    """Each layer of the catalogue in turn."""
    case: Case = request.param
    return case


@pytest.fixture
def forward_backward():
    """A function that runs a case's layer once, forward and backward: (y, dy, the used cache)."""

    def run(layer: Layer, case: Case) -> tuple[Any, Any, Any]:
        y, cache = layer.forward(*case.inputs, **case.options)
        dy = np.random.default_rng(5).normal(size=y.shape)
        layer.backward(dy, cache)
        return y, dy, cache

    return run
