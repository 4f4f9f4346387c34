"""How the memory of an operation grows with the length of its sequences."""

import math
import tracemalloc

import numpy as np


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
