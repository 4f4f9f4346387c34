"""One-dimensional convolution: NumPy's own, turned round, and a causal one that sees no later token."""

import numpy as np
import pytest

from npformer.functional import conv1d_forward

KERNELS = pytest.mark.parametrize("kernel", [1, 2, 3, 4, 9])
CAUSAL = pytest.mark.parametrize("causal", [False, True])


def made(rng, length, kernel):
    """x (2, T, 3), weight (K, 3, 4), bias (4,), dy (2, T, 4)."""
    x, weight, bias, dy = (rng.normal(size=s) for s in ((2, length, 3), (kernel, 3, 4), 4, (2, length, 4)))
    return x, weight, bias, dy


def by_numpy(x, weight, causal):
    """Σ over channels of np.convolve with the kernel turned round, the part that stands over the tokens."""
    (batch, length, c_in), kernel = x.shape, weight.shape[0]
    first = 0 if causal else kernel - 1 - (kernel - 1) // 2
    y = np.zeros((batch, length, weight.shape[2]))
    for b, i, o in np.ndindex(batch, c_in, weight.shape[2]):
        y[b, :, o] += np.convolve(x[b, :, i], weight[::-1, i, o])[first : first + length]
    return y


@KERNELS
@CAUSAL
@pytest.mark.parametrize("length", [1, 5])
def test_values_are_those_of_numpy(length, kernel, causal, rng):
    x, weight, bias, _ = made(rng, length, kernel)
    y, _ = conv1d_forward(x, weight, bias, causal)
    np.testing.assert_allclose(y, by_numpy(x, weight, causal) + bias, rtol=1e-12, atol=1e-13)
