"""How the memory of an operation grows with the length of its sequences."""

import math
import tracemalloc
from functools import partial

import numpy as np
import pytest

from npformer import functional as F  # noqa: N812
from npformer.functional import AttentionMask


def memory_exponent(forward, backward, short, long):
    """p of peak memory ∝ T^p from short to long, inputs apart, over a forward and a backward of (1, 1, T, 4) each."""
    peaks = []
    for length in (short, long):
        q, k, v = np.random.default_rng(0).normal(size=(3, 1, 1, length, 4))
        tracemalloc.start()
        out, cache = forward(q, k, v)
        backward(out, cache)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    return math.log(peaks[1] / peaks[0]) / math.log(long / short)


@pytest.mark.parametrize(
    ("name", "mask"),
    [("local_attention", {"window": 16}), ("linear_attention", {}), ("attention", {})],
)
@pytest.mark.parametrize("causal", [False, True])
def test_memory_grows_as_the_length_and_of_full_attention_as_its_square(name, mask, causal):
    forward = partial(getattr(F, f"{name}_forward"), mask=AttentionMask(causal=causal, **mask))
    backward = getattr(F, f"{name}_backward")
    if name == "attention":
        assert memory_exponent(forward, backward, 256, 1024) > 1.9
    else:
        assert memory_exponent(forward, backward, 1024, 4096) < 1.05
