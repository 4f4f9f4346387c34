"""What each operation refuses: shapes that do not meet, and options that make no sense; errors name what is wrong."""

import math
import re

import numpy as np
import pytest

from npformer import functional as F  # noqa: N812
from npformer.errors import ConfigError, DTypeError, ShapeError
from npformer.functional import AttentionMask

QUERIES, HEADS = (2, 3, 4, 6), (2, 3, 5, 6)
LOCAL = (2, 2, 6, 3)
LINEAR = (2, 2, 4, 3)
GRU = {"x": (2, 4, 3), "start": (2, 2), "weight": (3, 6), "bias": (6,), "recurrent": (2, 6), "recurrent_bias": (6,)}
NO_PAIRS = "no window and no stride, since linear attention has no single pairs to hide; use local attention"
NOT_CAUSAL = (
    "mask: expected causal linear attention to have T = S and no offset, got T=4, S={}, query_offset={}; "
    "decoding keeps sums instead"
)
BUCKETS = "num_buckets: expected an even number >= 4 (>= 2 of any kind if causal), got {}"
DISTANCE = "max_distance: expected more than {}, as nearer ones have their own buckets, got {}"
RATE = "dropout: expected a rate with 0 <= rate < 1 (at most 65535/65536), got {}"
EVEN = "x: expected (..., T, D) with an even D, since columns turn in pairs, got {}"


def seen(*shape):
    return AttentionMask(np.ones(shape, dtype=bool))


#: The forward, the error, and rows of its text and the arguments, shapes for arrays of ones.
REFUSED = [
    (F.linear_forward, ShapeError, [
        ("x: expected (..., C_in=3), got (2, 5)", (2, 5), (3, 4), (4,)),
        ("bias: expected (C_out,) = (4,), got (3,)", (2, 3), (3, 4), (3,)),
        ("bias: expected (C_out,) = (4,), got (1, 4)", (2, 3), (3, 4), (1, 4)),
        ("x: expected (..., C_in=3), got ()", (), (3, 4), (4,)),
        ("weight: expected (C_in, C_out), got (3,)", (2, 3), (3,), (3,)),
    ]),
    (F.feed_forward_forward, ShapeError, [
        ("x: expected (..., C_in=6), got (2, 3, 4)", (2, 3, 4), (6, 4), (4,), (4, 6), (6,), "relu", None),
        ("bias: expected (C_out,) = (6,), got (4,)", (2, 3, 4), (4, 6), (4,), (6, 4), (4,), "relu", None),
        ("bias: expected (C_out,) = (4,), got (6,)", (2, 3, 4), (4, 6), (6,), (6, 4), (6,), "gelu", None),
        ("x: expected (..., C_in=5), got (2, 3, 6)", (2, 3, 4), (4, 6), (6,), (5, 4), (4,), "gelu", None),
    ]),
    (F.feed_forward_forward, ConfigError, [
        ("activation: expected one of relu, gelu, got 'swish'", (2, 3, 4), (4, 6), (6,), (6, 4), (4,), "swish", None),
        (RATE.format(1.0), (2, 3, 4), (4, 6), (6,), (6, 4), (4,), "relu", F.Draw(1, 2, 3, 4, 1.0)),
    ]),
    (F.residual_forward, ShapeError, [
        ("f: expected the shape of x = (2, 3, 4), got (1, 3, 4)", (2, 3, 4), (1, 3, 4), None),  # broadcasts
    ]),
    (F.residual_forward, ConfigError, [(RATE.format(1.0), (2, 4), (2, 4), F.Draw(1, 2, 3, 4, 1.0))]),
    (F.post_norm_forward, ConfigError, [
        (RATE.format(1.0), (2, 4), (2, 4), (4,), (4,), 1e-5, F.Draw(1, 2, 3, 4, 1.0)),
    ]),
    (F.post_norm_forward, ShapeError, [
        ("f: expected the shape of x = (2, 4), got (2, 3)", (2, 4), (2, 3), (4,), (4,), 1e-5, None),
        ("gamma: expected (C,) = (4,), got (3,)", (2, 4), (2, 4), (3,), (4,), 1e-5, None),
    ]),
    (F.add_norm_forward, ShapeError, [
        ("f: expected the shape of x = (2, 4), got (4,)", (2, 4), (4,), (4,), (4,), 1e-5, None),
        ("beta: expected (C,) = (4,), got (3,)", (2, 4), (2, 4), (4,), (3,), 1e-5, None),
    ]),
    (F.layer_norm_forward, ShapeError, [
        ("gamma: expected (C,) = (4,), got (1, 4)", (2, 4), (1, 4), (4,)),
        ("beta: expected (C,) = (4,), got (1, 4)", (2, 4), (4,), (1, 4)),
    ]),
    (F.batch_norm_forward, ShapeError, [
        (f"counts: expected the shape of x without C = (2, 3), got {shape}", (2, 3, 4), (4,), (4,), shape)
        for shape in ((2,), (3, 2), (2, 3, 4))
    ]),
    (F.batch_norm_inference_forward, ShapeError, [
        (f"{name}: expected (C,) = (4,), got (3,)", (2, 3, 4), *((3,) if each == name else (4,) for each in names))
        for names in [("gamma", "beta", "mean", "variance")] for name in names
    ]),
    (F.softmax_forward, ShapeError, [
        (f"visible: expected a shape that broadcasts to x (5, 2, 3), got {shape}", (5, 2, 3), shape)
        for shape in ((4,), (2, 4), (5, 3, 1), (2, 5, 2, 3))
    ]),
    (F.dropout_forward, ConfigError, [
        (RATE.format(rate), (3,), F.Draw(5, 2, 1, 99, rate)) for rate in (-0.1, 1.0, 1.5, math.nan, math.inf, 0.999999)
    ]),
    (F.embedding_forward, DTypeError, [
        (f"tokens: expected integers (token ids), got {kind}; convert with astype first", np.ones(3, kind), (4, 2))
        for kind in ("float64", "bool")
    ]),
    (F.embedding_forward, ShapeError, [("table: expected (V, C), got (4,)", np.ones(3, int), (4,))]),
    (F.learned_positions_forward, ShapeError, [
        ("x: expected at most 5 positions (max_seq_len), got 6; raise max_seq_len, or use "
         "sinusoidal positions, which have no limit", (1, 4, 2), (5, 2), 2),
        ("table: expected (P, C) = (5, 2), got (5, 1)", (1, 4, 2), (5, 1)),
    ]),
    (F.learned_positions_forward, ConfigError, [("offset: expected an integer >= 0, got -1", (1, 1, 2), (5, 2), -1)]),
    (F.rotary_forward, ShapeError, [(EVEN.format(shape), shape) for shape in ((3, 5), (4,))]),
    (F.rotary_forward, ConfigError, [
        ("start: expected an integer >= 0, got -1", (3, 4), -1),
        ("base: expected a number > 0, got 0.0", (3, 4), 0, 0.0),
        ("base: expected a number > 0, got nan", (3, 4), 0, math.nan),
    ]),
    (F.relative_bias_forward, ShapeError, [("table: expected (num_buckets, H), got (32,)", (32,), 3, 3)]),
    (F.relative_bias_forward, ConfigError, [
        (BUCKETS.format(7), (7, 2), 3, 3),
        (BUCKETS.format(2), (2, 2), 3, 3),
        (BUCKETS.format(1), (1, 2), 3, 3, 0, True),
        (DISTANCE.format(8, 8), (32, 2), 3, 3, 0, False, 8),
        (DISTANCE.format(16, 16), (32, 2), 3, 3, 0, True, 16),
    ]),
    (AttentionMask, ConfigError, [
        ("window: expected an integer >= 1 or None, got 0", None, False, 0, 0),
        ("stride: expected an integer >= 1 or None, got -2", None, False, 0, None, -2),
        ("query_offset: expected an integer >= 0, got -1", None, False, -1),
    ]),
    (F.split_heads, ShapeError, [
        ("x: expected (B, T, C) with C divisible by H=4, got (2, 3, 6)", (2, 3, 6), 4),
    ]),
    (F.attention_forward, ShapeError, [
        ("q: expected (B, H, T, D), got (2, 3, 4)", (2, 3, 4), HEADS, HEADS),
        ("k: expected (B=2, H=3, S, D=6), got (2, 3, 5, 7)", QUERIES, (2, 3, 5, 7), HEADS),
        ("k: expected (B=2, H=3, S, D=6), got (5,)", QUERIES, (5,), HEADS),
        ("k: expected (B=2, H=3, S, D=6), got (1, 3, 5, 6)", QUERIES, (1, 3, 5, 6), (1, 3, 5, 6)),
        ("v: expected the shape of k = (2, 3, 5, 6), got (2, 3, 4, 6)", QUERIES, HEADS, QUERIES),
        ("key_visible: expected (B, S) = (1, 5), got (2, 5)", (1, 3, 4, 6), (1, 3, 5, 6), (1, 3, 5, 6), seen(2, 5)),
    ]),
    (F.attention_forward, DTypeError, [
        ("key_visible: expected booleans, True = this key may be looked at, got float64; a mask of scores to be added "
         "(0 or -inf) becomes one by mask == 0", QUERIES, HEADS, HEADS, AttentionMask(np.ones((2, 5)))),
    ]),
    (F.biased_attention_forward, ShapeError, [
        (f"bias: expected (H, T, S) = (3, 4, 5), got {shape}", QUERIES, HEADS, HEADS, shape)
        for shape in ((4, 5), (2, 3, 4, 5), (3, 5, 4), (1, 4, 5))
    ]),
    (F.local_attention_forward, ConfigError, [
        ("mask: expected a window, a stride, or both; without them every key is near: use attention",
         LOCAL, LOCAL, LOCAL, AttentionMask(causal=True)),
        ("mask: expected query_offset=0, got 3; decoding asks a few kept keys instead",
         LOCAL, LOCAL, LOCAL, AttentionMask(window=2, query_offset=3)),
    ]),
    (F.local_attention_forward, ShapeError, [
        ("k: expected the shape of q: local attention is of a sequence to itself = (2, 2, 6, 3), got (2, 2, 5, 3)",
         LOCAL, (2, 2, 5, 3), (2, 2, 5, 3), AttentionMask(window=2)),
        ("key_visible: expected (B, S) = (2, 6), got (2, 5)",
         LOCAL, LOCAL, LOCAL, AttentionMask(np.ones((2, 5), dtype=bool), window=2)),
    ]),
    (F.linear_attention_forward, ConfigError, [
        (f"mask: expected {NO_PAIRS}", LINEAR, LINEAR, LINEAR, AttentionMask(window=2)),
        (f"mask: expected {NO_PAIRS}", LINEAR, LINEAR, LINEAR, AttentionMask(stride=2)),
        (NOT_CAUSAL.format(5, 0), LINEAR, (2, 2, 5, 3), (2, 2, 5, 3), AttentionMask(causal=True)),
        (NOT_CAUSAL.format(4, 2), LINEAR, LINEAR, LINEAR, AttentionMask(causal=True, query_offset=2)),
    ]),
    (F.linear_attention_forward, ShapeError, [
        ("key_visible: expected (B, S) = (2, 4), got (2, 3)", LINEAR, LINEAR, LINEAR, seen(2, 3)),
    ]),
    (F.conv1d_forward, ShapeError, [
        ("weight: expected (K, C_in, C_out) with K >= 1, got (3, 4)", (2, 5, 3), (3, 4), (4,)),
        ("weight: expected (K, C_in, C_out) with K >= 1, got (0, 3, 4)", (2, 5, 3), (0, 3, 4), (4,)),
        ("x: expected (B, T, C_in=3), got (2, 5, 2)", (2, 5, 2), (3, 3, 4), (4,)),
        ("x: expected (B, T, C_in=3), got (5, 3)", (5, 3), (3, 3, 4), (4,)),
        ("bias: expected (C_out,) = (4,), got (3,)", (2, 5, 3), (3, 3, 4), (3,)),
    ]),
    (F.cross_entropy_forward, ConfigError, [
        (f"label_smoothing: expected 0 <= label_smoothing < 1, got {smoothing}",
         (2, 3, 5), np.ones((2, 3), int), 0, smoothing)
        for smoothing in (-0.1, 1.0, math.nan)
    ]),
    (F.cross_entropy_forward, DTypeError, [
        ("targets: expected integers (token ids), got float64; convert with astype first", (2, 3, 5), (2, 3)),
    ]),
    (F.cross_entropy_forward, ShapeError, [
        ("targets: expected the shape of logits without V = (2, 3), got (3, 2)", (2, 3, 5), np.ones((3, 2), int)),
    ]),
    (F.gru_forward, ShapeError, [(text, *(GRU | changed).values()) for changed, text in (
        ({"x": (2, 3)}, "x: expected (B, T, C_in) with T >= 1, got (2, 3)"),
        ({"x": (2, 0, 3)}, "x: expected (B, T, C_in) with T >= 1, got (2, 0, 3)"),
        ({"start": (3, 2)}, "start: expected (B=2, C), got (3, 2)"),
        ({"weight": (3, 5)}, "weight: expected (C_in, 3C) = (3, 6), got (3, 5)"),
        ({"recurrent": (2, 5)}, "recurrent: expected (C, 3C) = (2, 6), got (2, 5)"),
        ({"bias": (5,)}, "bias: expected (3C,) = (6,), got (5,)"),
        ({"recurrent_bias": (5,)}, "recurrent_bias: expected (3C,) = (6,), got (5,)"),
        ({"visible": (2, 3)}, "visible: expected (B, T) = (2, 4), got (2, 3)"),
    )]),
]  # fmt: skip


def filled(arguments):
    """Arguments with ones for shapes."""
    return [np.ones(each) if type(each) is tuple else each for each in arguments]


@pytest.mark.parametrize(
    ("forward", "arguments", "error", "text"),
    [(forward, arguments, error, text) for forward, error, rows in REFUSED for text, *arguments in rows],
)
def test_what_does_not_fit_is_refused_with_the_reason(forward, arguments, error, text):
    with pytest.raises(error, match=f"^{re.escape(text)}$"):
        forward(*filled(arguments))
