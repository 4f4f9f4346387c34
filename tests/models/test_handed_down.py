"""The options of a model's constructor reach all of its parts: options, directions of masks, and random numbers."""

from collections import Counter
from functools import partial
from itertools import combinations, product

import numpy as np
import pytest

from npformer.functional.relative_bias import relative_bias_forward
from npformer.layers import (
    DecoderLayer,
    DecoderStack,
    Dropout,
    Embedding,
    EncoderLayer,
    EncoderStack,
    FeedForward,
    LearnedPositions,
    LinearAttention,
    Local,
    MultiHeadAttention,
    ScaledDotProduct,
    SinusoidalPositions,
)
from npformer.layers.norms import NORMS
from npformer.models import DecoderConfig, EncoderConfig, TransformerConfig, build_model

SIZES = {"d_model": 8, "num_heads": 2, "d_ff": 12, "max_seq_len": 6}
KINDS = {
    "Transformer": (
        TransformerConfig,
        {"src_vocab_size": 9, "tgt_vocab_size": 11, "num_encoder_layers": 2, "num_decoder_layers": 2},
    ),
    "Encoder": (EncoderConfig, {"vocab_size": 9, "num_layers": 2}),
    "Decoder": (DecoderConfig, {"vocab_size": 9, "num_layers": 2}),
}
EVERY_KIND = pytest.mark.parametrize("kind", KINDS)


def made(kind, backend, seed=0, **changes):
    config, sizes = KINDS[kind]
    return build_model(config(**sizes, **SIZES | changes), backend=backend, seed=seed)


def parts(model, *kinds):
    """Every layer of these kinds in the model; there are some."""
    layers = [layer for layer in model.all_layers() if isinstance(layer, kinds)]
    assert layers, kinds
    return layers


def self_attentions(model):
    return [layer.self_attention for layer in parts(model, EncoderLayer, DecoderLayer)]


def cross_attentions(model):
    return [layer.cross_attention for layer in model.all_layers() if isinstance(layer, DecoderLayer)]


@EVERY_KIND
@pytest.mark.parametrize(
    ("option", "value", "parts_of", "attribute", "expected"),
    [
        ("dropout", 0.25, [Dropout], "rate", 0.25),
        ("dropout", 0.25, [EncoderLayer, DecoderLayer, MultiHeadAttention, FeedForward], "dropout", 0.25),
        *(("recompute", word, [EncoderStack, DecoderStack], "recompute", word) for word in (False, True)),
        *(("scale_embedding", word, [Embedding], "scale", scale) for word, scale in ((False, 1.0), (True, 8**0.5))),
        *(("activation", word, [FeedForward], "activation", word) for word in ("relu", "gelu")),
        *(("num_heads", count, [MultiHeadAttention], "num_heads", count) for count in (2, 4)),
    ],
)
def test_an_option_reaches_every_part(kind, option, value, parts_of, attribute, expected, numpy64):
    model = made(kind, numpy64, **{option: value})
    assert {getattr(one, attribute) for one in parts(model, *parts_of)} == {expected}


@EVERY_KIND
def test_norms_have_the_kind_and_position_of_the_options(kind, numpy64):
    for order, final, norm in product(("post", "pre"), (None, True, False), NORMS):
        model = made(kind, numpy64, norm=norm, norm_order=order, final_norm=final)
        assert {layer.norm_order for layer in parts(model, EncoderLayer, DecoderLayer)} == {order}
        assert {type(one) for one in parts(model, *NORMS.values())} == {NORMS[norm]}
        wanted = order == "pre" if final is None else final
        assert {stack.norm is not None for stack in parts(model, EncoderStack, DecoderStack)} == {wanted}


@EVERY_KIND
@pytest.mark.parametrize(
    ("words", "mechanism"),
    [({}, ScaledDotProduct), ({"attention": "linear"}, LinearAttention),
     ({"attention": "local", "window": 3}, Local(3)), ({"attention": "local", "stride": 2}, Local(None, 2)),
     ({"attention": "local", "window": 3, "stride": 2}, Local(3, 2))],
    ids=str,
)  # fmt: skip
def test_self_attention_is_as_described_and_that_to_the_memory_is_full(kind, words, mechanism, numpy64):
    model = made(kind, numpy64, **words)
    for one in self_attentions(model):
        assert mechanism in (one.mechanism, type(one.mechanism))
    assert all(type(one.mechanism) is ScaledDotProduct for one in cross_attentions(model))


@EVERY_KIND
@pytest.mark.parametrize(
    ("positions", "added"),
    [("sinusoidal", SinusoidalPositions), ("learned", LearnedPositions), ("rotary", None), ("relative", None),
     ("none", None)],
)  # fmt: skip
def test_positions_are_added_or_encoded_in_self_attention(kind, positions, added, numpy64):
    model = made(kind, numpy64, positions=positions)
    adding = Counter(type(one) for one in model.all_layers() if isinstance(one, SinusoidalPositions | LearnedPositions))
    assert adding == ({} if added is None else {added: 2 if kind == "Transformer" else 1})
    assert {one.rotation is not None for one in self_attentions(model)} == {positions == "rotary"}
    assert {one.score_bias is not None for one in self_attentions(model)} == {positions == "relative"}
    assert all(one.rotation is one.score_bias is None for one in cross_attentions(model))


@EVERY_KIND
def test_buckets_of_distances_are_spent_on_keys_ahead_only_where_they_are_seen(kind, numpy64):
    """Of 32 buckets 16 are for exact distances if attention is causal, else 8 for each direction."""
    model = made(kind, numpy64, positions="relative")
    for layer in parts(model, EncoderLayer, DecoderLayer):
        causal = kind == "Decoder" or isinstance(layer, DecoderLayer)
        bias = layer.self_attention.score_bias
        expected, _ = relative_bias_forward(bias.weight.data, 20, 20, 0, causal, 128)
        assert np.array_equal(bias(20, 20), expected)
        distances = {tuple(expected[:, 19, 19 - distance]) for distance in range(20)}
        assert len(distances) == (18 if causal else 11)  # beyond the exact ones some share a bucket


def drawn(model):
    """Name -> numbers of each parameter that is drawn at random; the others start at 0 or 1 throughout."""
    arrays = {name: view.data for name, view in model.named_parameters()}
    return {name: x for name, x in arrays.items() if np.unique(x).size > 1}


def of_one_stream(a, b):
    """Whether a and b, row by row, are multiples of one sequence: drawn twice from one state of a generator."""
    a, b = a.ravel(), b.ravel()
    size = min(a.size, b.size)
    return bool(np.allclose(a[:size] * b[0], b[:size] * a[0], rtol=1e-9, atol=0))


DRAWING = [{}, {"positions": "learned"}, {"positions": "relative"}, {"norm_order": "pre"}]
LAYER = {"d_model": 8, "num_heads": 2, "d_ff": 12}
EVERY_START = pytest.mark.parametrize(
    "make",
    [partial(made, kind, **changes) for kind in KINDS for changes in DRAWING]
    + [partial(kind, num_layers=2, **LAYER) for kind in (EncoderStack, DecoderStack)],
    ids=lambda make: f"{make.func.__name__}, {make.args}, {make.keywords}",
)


@EVERY_START
def test_no_two_parts_start_from_the_same_numbers(make, numpy64):
    for (name, a), (other, b) in combinations(drawn(make(backend=numpy64, seed=3)).items(), 2):
        assert not of_one_stream(a, b), f"{name}, {other}"


@EVERY_START
def test_every_part_starts_from_the_seed(make, numpy64):
    """A part that is not handed the seed starts from a seed of its own, the same in every model."""
    first, again, other = (drawn(make(backend=numpy64, seed=seed)) for seed in (3, 3, 4))
    assert first.keys() == other.keys()
    for name, x in first.items():
        assert np.array_equal(x, again[name]), name
        assert not np.isin(x, other[name]).any(), name
