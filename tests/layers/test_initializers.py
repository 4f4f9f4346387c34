"""Initial values of parameters: mean, spread and range of every distribution, by statistics with derived bounds.

N numbers of deviation σ and kurtosis κ (3 for a normal distribution, 9/5 for a uniform one) have

    standard error of their mean         σ/√N
    standard error of their deviation    σ/2·√((κ − 1)/N)

and each figure below lies within SIGMAS standard errors of what is promised. A right generator misses that once in
5·10⁸ figures, and the seed is fixed, so never. With N = 10⁶ a mean that is off by 0.006σ is seen.
"""

from math import sqrt

import numpy as np
import pytest

from npformer.layers import (
    Conv1d,
    Embedding,
    FeedForward,
    Gru,
    LearnedPositions,
    Linear,
    MultiHeadAttention,
    RelativeBias,
)

SIGMAS, SEED = 6, 7


def expect_normal(x, deviation):
    """x looks drawn from a normal distribution around 0."""
    _expect_mean_and_spread(x, deviation, kurtosis=3)
    within = np.mean(np.abs(x) < deviation)  # of a normal distribution 0.6827, of a uniform one 0.5774
    assert abs(within - 0.68269) <= SIGMAS * sqrt(0.68269 * 0.31731 / x.size), within


def expect_uniform(x, limit):
    """x looks drawn uniformly from ±limit."""
    _expect_mean_and_spread(x, limit / sqrt(3), kurtosis=9 / 5)
    # all N stay farther than a share t of the range 2·limit from one end with probability (1 − t)ᴺ < exp(−Nt)
    nearest = 2 * limit * min(0.5, 20 / x.size)  # exp(−20) = 2·10⁻⁹
    assert -limit <= x.min() <= nearest - limit
    assert limit - nearest <= x.max() <= limit


def _expect_mean_and_spread(x, deviation, kurtosis):
    assert abs(x.mean()) <= SIGMAS * deviation / sqrt(x.size), x.mean()
    spread = sqrt(np.mean(x * x))  # around the promised mean, 0
    assert abs(spread - deviation) <= SIGMAS * deviation / 2 * sqrt((kurtosis - 1) / x.size), spread / deviation


#: Layers with what each of their parameters is promised to start from: (parameter, check, deviation or limit).
LAYERS = {
    "Linear": (
        lambda b: Linear(200, 300, backend=b, seed=SEED),
        [("weight", expect_uniform, sqrt(6 / 500))],
    ),
    "Linear, small": (
        lambda b: Linear(200, 300, init="small", backend=b, seed=SEED),
        [("weight", expect_normal, 0.02)],
    ),
    "FeedForward": (
        lambda b: FeedForward(200, 300, backend=b, seed=SEED),
        [(f"{name}.weight", expect_uniform, sqrt(6 / 500)) for name in ("up", "down")],
    ),
    "MultiHeadAttention": (
        lambda b: MultiHeadAttention(200, 2, backend=b, seed=SEED),
        [(f"{name}.weight", expect_uniform, sqrt(6 / 400)) for name in ("query", "key", "value", "output")],
    ),
    "Embedding, normal": (
        lambda b: Embedding(900, 100, backend=b, seed=SEED),
        [("weight", expect_normal, 1 / sqrt(100))],
    ),
    "Embedding, uniform": (
        lambda b: Embedding(900, 100, init="uniform", backend=b, seed=SEED),
        [("weight", expect_uniform, sqrt(3 / 100))],
    ),
    "Embedding, half as large": (
        lambda b: Embedding(900, 100, std=0.5, backend=b, seed=SEED),
        [("weight", expect_normal, 0.5 / sqrt(100))],
    ),
    "LearnedPositions": (
        lambda b: LearnedPositions(900, 100, backend=b, seed=SEED),
        [("weight", expect_normal, 1 / sqrt(100))],
    ),
    "RelativeBias": (
        lambda b: RelativeBias(100, num_buckets=900, max_distance=1000, backend=b, seed=SEED),
        [("weight", expect_normal, 0.02)],
    ),
    "Gru": (
        lambda b: Gru(300, 200, backend=b, seed=SEED),
        [(n, expect_uniform, 1 / sqrt(200)) for n in ("weight", "bias", "recurrent", "recurrent_bias")],
    ),
    "Conv1d": (
        lambda b: Conv1d(80, 200, 5, backend=b, seed=SEED),
        [(name, expect_uniform, 1 / sqrt(80 * 5)) for name in ("weight", "bias")],
    ),
}


@pytest.mark.parametrize("name", LAYERS)
def test_parameters_start_as_their_layer_says(name, numpy64):
    make, promises = LAYERS[name]
    arrays = {parameter: view.data for parameter, view in make(numpy64).named_parameters()}
    for parameter, expect, number in promises:
        expect(arrays.pop(parameter), number)
    assert not any(x.any() for x in arrays.values()), "all others are biases, which start at 0"
