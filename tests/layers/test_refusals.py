"""What the constructors of layers refuse: options that make no sense, and parts that do not fit."""

import re

import numpy as np
import pytest

from npformer.errors import ConfigError
from npformer.layers import (
    Conv1d,
    DecoderLayer,
    Embedding,
    EncoderLayer,
    FeedForward,
    LinearAttention,
    Local,
    MultiHeadAttention,
    RelativeBias,
    Rotary,
    SelfAttention,
)

X = np.ones((2, 3, 8))
ORDER = "norm_order: expected 'post' or 'pre', got 'Pre'"
NO_MEMORY = "memory: expected none with a rotation or a score bias, which are for self-attention"
NO_BIAS = "which has no full matrix of scores to add it to; use rotary positions, or full attention"
#: what is made, given a backend, and what is said
REFUSED = [
    (lambda b: EncoderLayer(4, 2, 6, norm="group", backend=b), "norm: expected one of layer, batch, got 'group'"),
    (lambda b: EncoderLayer(4, 2, 6, norm_order="Pre", backend=b), ORDER),
    (lambda b: DecoderLayer(4, 2, 6, norm_order="Pre", backend=b), ORDER),
    (lambda b: FeedForward(4, 6, activation="swish", backend=b), "activation: expected one of relu, gelu, got 'swish'"),
    (lambda b: Conv1d(3, 4, 0, backend=b), "kernel_size: expected an integer >= 1, got 0"),
    (lambda b: Embedding(3, 2, init="xavier", backend=b), "init: expected one of normal, uniform, got 'xavier'"),
    *(
        (lambda b, heads=heads: MultiHeadAttention(10, heads, backend=b),
         f"num_heads: expected a divisor of d_model=10, got {heads}; the nearest is {nearest}")
        for heads, nearest in ((3, 2), (0, 1), (-2, 1), (11, 10))
    ),
    (lambda b: SelfAttention(position_encoding="learned"),
     "position_encoding: expected one of absolute, rotary, relative, got 'learned'"),
    (lambda b: SelfAttention(position_encoding="relative", num_buckets=5),
     "num_buckets: expected an even number >= 4 (>= 2 of any kind if causal), got 5"),
    (lambda b: MultiHeadAttention(8, 2, mechanism=Local(window=2), score_bias=RelativeBias(2, backend=b), backend=b),
     f"score_bias: expected none with Local, {NO_BIAS}"),
    (lambda b: MultiHeadAttention(8, 2, mechanism=LinearAttention(), score_bias=RelativeBias(2, backend=b), backend=b),
     f"score_bias: expected none with LinearAttention, {NO_BIAS}"),
    (lambda b: MultiHeadAttention(8, 2, rotation=Rotary(), backend=b)(X, X), NO_MEMORY),
    (lambda b: MultiHeadAttention(8, 2, score_bias=RelativeBias(2, backend=b), backend=b)(X, X), NO_MEMORY),
    (lambda b: MultiHeadAttention(6, 2, rotation=Rotary(), backend=b),
     "rotation: expected heads of even width, since columns turn in pairs, got D=3"),
    (lambda b: Local(), "window, stride: expected at least one of them for local attention, got none"),
    (lambda b: Local(window=0), "window: expected an integer >= 1 or None, got 0"),
    (lambda b: Local(stride=0), "stride: expected an integer >= 1 or None, got 0"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "text"), REFUSED)
def test_what_makes_no_sense_is_refused_with_the_reason(make, text, numpy64):
    with pytest.raises(ConfigError, match=f"^{re.escape(text)}$"):
        make(numpy64)
