"""What tests of compiled parts share: small kernels around them, compiled as the package compiles its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

Host = np.ndarray[Any, Any]


@pytest.fixture(scope="session")
def compiled() -> Callable[[Callable[..., Any]], Any]:
    """compiled(function), with the options of kernels; skips where Numba is missing."""
    pytest.importorskip("numba")
    from npformer.backend.numba.compiling import inlined

    return inlined


@pytest.fixture(scope="session")
def elementwise(compiled: Any) -> Callable[[Any], Callable[[Host], Host]]:
    """elementwise(part): a function of arrays that applies part, a function of one number, to each number."""

    def make(part: Any) -> Callable[[Host], Host]:
        def loop(x: Host, y: Host) -> None:
            for i in range(x.size):
                y[i] = part(x[i])

        kernel = compiled(loop)

        def apply(x: Host) -> Host:
            y = np.empty_like(x)
            kernel(x, y)
            return y

        return apply

    return make


@pytest.fixture(params=["alone", "shared"])
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Decoding steps of one thread, and of two; models are small in tests, and two threads would not share them."""
    pytest.importorskip("numba")
    from npformer.backend.numba import decode_step

    if request.param == "shared":
        monkeypatch.setattr(decode_step, "WORTH_SHARING", 0)
    return str(request.param)
