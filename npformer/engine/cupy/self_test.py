"""Tries one GPU: a product, a kernel, a capture and a replay, each compared with NumPy.

python -m npformer.engine.cupy.self_test 0      prints "ok", or what fails on the GPU with this number
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from npformer.backend import PLAIN
from npformer.backend.select import cupy_backend

NEAR = 1e-3  # far more than rounding


def self_test(number: int) -> str:
    """ "ok", or the first thing that fails on the GPU with this number, and how."""
    import cupy

    rng, stage = np.random.default_rng(0), "making a backend"
    x, weight, bias = (rng.normal(size=shape).astype(np.float32) for shape in ((64, 96), (96, 32), (32,)))
    try:
        with cupy.cuda.Device(number):
            backend: Any = cupy_backend("float32")
            ops, on_gpu = backend.ops, [backend.array(each) for each in (x, weight, bias)]

            def layer(subject: None, inputs: tuple[Any, ...]) -> tuple[Any]:
                return (ops.gelu.forward(ops.linear.forward(*inputs, *on_gpu[1:])[0])[0],)

            stage = "a product"
            y, _ = ops.linear.forward(*on_gpu)
            _expect_near(backend.host(y), x @ weight + bias)
            stage = "a kernel"
            expected, _ = PLAIN.gelu.forward(x @ weight + bias)
            _expect_near(backend.host(ops.gelu.forward(y)[0]), expected)
            recorded = backend.engine.capture(layer, lambda subject: ())
            for times, each in enumerate(("what is to be recorded", "a capture", "a replay"), 1):
                stage, (expected, _) = each, PLAIN.gelu.forward(times * x @ weight + bias)
                _expect_near(backend.host(recorded(None, (times * x,))[0]), expected)
                if recorded.refusal:
                    raise RuntimeError(recorded.refusal)
    except Exception as error:
        return f"{stage} fails: {type(error).__name__}: {error}".replace("\n", " ")
    return "ok"


def _expect_near(found: Any, expected: Any) -> None:
    error = float(np.max(np.abs(found - expected)))
    if not error < NEAR:
        raise ArithmeticError(f"expected what NumPy computes, got numbers that are {error:.1e} from it")


if __name__ == "__main__":
    print(self_test(int(sys.argv[1])))
