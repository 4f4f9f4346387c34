"""The programs that are hard to judge: what each right one gives is its derivative, and what its twin gives is not."""

import numpy as np
import pytest

from benchmarks.verdicts.__main__ import ACCUSED, CERTIFIED, CRASH, judged
from benchmarks.verdicts.blind import BLIND
from benchmarks.verdicts.more import MORE
from benchmarks.verdicts.twins import TWINS

EVERY = [*TWINS, *MORE]
#: Forwards that round inside, whose differences say nothing at the steps here.
IN_STEPS = ("short", "float32", "folded", "grain", "whole number")


def test_there_are_thirty_and_twice_twenty_twins():
    assert (len(TWINS), len(MORE), len(BLIND)) == (30, 20, 20)
    assert len({twin.name for twin in (*EVERY, *BLIND)}) == 70


@pytest.mark.parametrize("twin", [*EVERY, *BLIND], ids=lambda twin: twin.name)
def test_no_right_one_is_accused_and_no_wrong_one_certified(twin):
    try:
        outcomes = [judged(twin, wrong)[0] for wrong in (False, True)]
    except ImportError as error:
        pytest.skip(f"{error.name} is not installed")
    assert not {ACCUSED, CERTIFIED, CRASH} & set(outcomes)


PAIRS = [twin for twin in EVERY if not any(word in twin.name for word in IN_STEPS)]


@pytest.mark.parametrize("twin", PAIRS, ids=lambda twin: twin.name)
def test_a_right_gradient_is_the_derivative(twin):
    """By differences of this file's own, at a point nearby where nothing ties."""
    try:
        (target, inputs), _ = twin.make(False), twin.make(True)
    except ImportError as error:
        pytest.skip(f"{error.name} is not installed")
    if not isinstance(target, tuple):
        pytest.skip("no pair of NumPy's")
    forward, backward = target
    rng = np.random.default_rng(1)
    inputs = [np.asarray(x, float) if getattr(x, "dtype", None) and x.dtype.kind == "f" else x for x in inputs]
    y, cache = forward(*inputs)
    outputs = y if isinstance(y, tuple) else (y,)
    silent = twin.options.get("constant", "")
    wanted = [i for i, part in enumerate(outputs) if np.asarray(part).dtype.kind == "f" and f"output {i}" != silent]
    dys = tuple(rng.normal(size=np.shape(part)) * (i in wanted) for i, part in enumerate(outputs))
    gradients = backward(dys if isinstance(y, tuple) else dys[0], cache)
    gradients = gradients if isinstance(gradients, tuple) else (gradients,)
    floats = [k for k, x in enumerate(inputs) if isinstance(x, np.ndarray) and x.dtype.kind == "f"]
    for k, gradient in zip(floats, gradients, strict=False):
        x = inputs[k]
        direction = np.where(np.isfinite(x) & (x != 0), rng.normal(size=x.shape), 0)
        for row in range(len(x)) if "equals" in twin.name else ():
            direction[row] = 0 if len(set(x[row])) < x.shape[-1] else direction[row]
        if twin.options.get("structure"):
            direction = (direction + direction.T) / 2
        size = float(np.sqrt(np.mean(np.square(x[np.isfinite(x)])))) or 1.0
        h = 1e-6 * (1e-4 if "probabilit" in twin.name or twin.name in ("surprise", "log determinant") else 1) * size

        def moved(step, k=k, x=x, direction=direction):
            y = forward(*inputs[:k], x + step * direction, *inputs[k + 1 :])[0]
            return [np.asarray(part) for part in (y if isinstance(y, tuple) else (y,))]

        slope = sum(np.sum(dys[i] * (moved(h)[i] - moved(-h)[i])) / (2 * h) for i in wanted)
        expected = np.sum(np.where(direction != 0, gradient * direction, 0))
        terms = float(np.sum(np.abs(np.where(direction != 0, gradient * direction, 0))))
        assert slope == pytest.approx(expected, abs=1e-4 * terms)
