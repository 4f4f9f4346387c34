"""Local and strided attention: the numbers of full attention under the same mask, without its n² matrix."""

import itertools

import numpy as np
import pytest

from npformer.functional import (
    AttentionMask,
    attention_backward,
    attention_forward,
    local_attention_backward,
    local_attention_forward,
)

B, H, D = 2, 2, 3
#: Lengths that a window or a stride divides, and does not; shorter than either; a window beyond the whole.
PATTERNS = list(itertools.product((1, 2, 7, 12), (1, 3, 4, 20), (None, 1, 3, 5), (False, True)))
PATTERNS += [(length, None, stride, causal) for length in (1, 6, 7) for stride in (1, 3) for causal in (False, True)]


def made(rng, length):
    """q, k, v, dout, and which keys are visible: all, and every second one of a few."""
    visible = np.stack([np.ones(length, dtype=bool), np.arange(length) % 2 == 1])
    return (*(rng.normal(size=(B, H, length, D)) for _ in range(4)), visible)


@pytest.mark.parametrize(("length", "window", "stride", "causal"), PATTERNS)
def test_it_is_full_attention_with_the_same_mask(length, window, stride, causal, rng):
    q, k, v, dout, visible = made(rng, length)
    for mask in (AttentionMask(None, causal, 0, window, stride), AttentionMask(visible, causal, 0, window, stride)):
        out, cache = local_attention_forward(q, k, v, mask)
        full, full_cache = attention_forward(q, k, v, mask)
        np.testing.assert_allclose(out, full, rtol=1e-12, atol=1e-14)
        gradients = zip(local_attention_backward(dout, cache), attention_backward(dout, full_cache), strict=True)
        for one, other in gradients:
            np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-13)
