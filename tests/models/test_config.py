"""A configuration that makes no sense is refused when it is created."""

import itertools
import re

import numpy as np
import pytest

from npformer.backend import get_backend
from npformer.check import catalogue
from npformer.errors import ConfigError
from npformer.models import DecoderConfig, EncoderConfig, TransformerConfig

POSITIONS = ("sinusoidal", "learned", "rotary", "relative", "none")
COUNTS = ("src_vocab_size", "tgt_vocab_size", "d_model", "num_encoder_layers", "num_decoder_layers", "d_ff",
          "max_seq_len")  # fmt: skip


def config(**changes):
    return TransformerConfig(**({"src_vocab_size": 7, "tgt_vocab_size": 9, "d_model": 12, "num_heads": 3} | changes))


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("value", [0, 8.0])
def test_a_count_must_be_a_positive_integer(name, value):
    with pytest.raises(ConfigError, match=f"^{name}: expected an integer >= 1, got {re.escape(repr(value))}$"):
        config(**{name: value})


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"num_heads": 5}, "num_heads: expected a divisor of d_model=12, got 5; the nearest is 4"),
        ({"num_heads": 0}, "num_heads: expected an integer >= 1, got 0"),
        ({"dropout": 1.0}, "dropout: expected a rate with 0 <= rate < 1 (at most 65535/65536), got 1.0"),
        ({"dropout": -0.1}, "dropout: expected a rate with 0 <= rate < 1 (at most 65535/65536), got -0.1"),
        ({"norm_order": "Post"}, "norm_order: expected one of post, pre, got 'Post'"),
        ({"activation": "swish"}, "activation: expected one of relu, gelu, got 'swish'"),
        (
            {"positions": "circular"},
            "positions: expected one of sinusoidal, learned, rotary, relative, none, got 'circular'",
        ),
        (
            {"tie_embeddings": True},
            "tie_embeddings: expected equal vocabularies, got src_vocab_size=7 and tgt_vocab_size=9; "
            "use one vocabulary for both, or do not tie",
        ),
        ({"norm": "group"}, "norm: expected one of layer, batch, got 'group'"),
        ({"attention": "sparse"}, "attention: expected one of full, local, linear, got 'sparse'"),
        ({"attention": "local", "window": 0}, "window: expected an integer >= 1, got 0"),
        ({"attention": "local", "stride": -1}, "stride: expected an integer >= 1, got -1"),
        ({"attention": "local"}, "window, stride: expected at least one of them for local attention, got none"),
        (
            {"window": 3},
            "window, stride: expected none for full attention, got 3 and None; they are local attention's",
        ),
        (
            {"positions": "relative", "attention": "local", "window": 3},
            "positions: expected no relative bias with local attention, which computes no full matrix of scores to add "
            "it to; use rotary positions, or full attention",
        ),
        (
            {"positions": "rotary", "num_heads": 4},
            "positions: expected heads of even width for rotary ones, got 3",
        ),
        (
            {"norm": "batch", "recompute": True},
            "recompute: expected False with norm='batch', whose statistics would be taken from the batch twice",
        ),
        ({"init": "kaiming"}, "init: expected one of small, xavier, got 'kaiming'"),
        ({"num_heads": 2.0}, "num_heads: expected an integer >= 1, got 2.0"),
        ({"pad_id": 0.5}, "pad_id: expected an id in every vocabulary, or None, got 0.5"),
        ({"pad_id": -2}, "pad_id: expected an id in every vocabulary, or None, got -2"),
        ({"pad_id": 7}, "pad_id: expected an id in every vocabulary, or None, got 7"),
        ({"d_model": 2**20 + 2}, "d_model: expected at most 1,048,576, got 1,048,578"),
        ({"d_ff": 10**9}, "d_ff: expected at most 1,048,576, got 1,000,000,000"),
        ({"num_decoder_layers": 10_001}, "num_decoder_layers: expected at most 10,000, got 10,001"),
        ({"max_seq_len": 2**31}, "max_seq_len: expected at most 2,147,483,647, got 2,147,483,648"),
        ({"src_vocab_size": 10**5000}, "src_vocab_size: expected at most 2,147,483,647, got a number of 16610 bits"),
        ({"attention": "local", "window": 2**31}, "window: expected at most 2,147,483,647, got 2,147,483,648"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused(changes, text):
    with pytest.raises(ConfigError, match=f"^{re.escape(text)}$"):
        config(**changes)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"head": "words"}, "head: expected one of sequence, tokens, masked, got 'words'"),
        ({"head": "masked", "num_classes": 5}, "num_classes: expected none for masked tokens, got 5: it is vocab_size"),
        ({"head": "sequence"}, "num_classes: expected an integer >= 1, got None"),
        ({"head": "tokens", "num_classes": 0}, "num_classes: expected an integer >= 1, got 0"),
        (
            {"head": "tokens", "num_classes": 5, "tie_embeddings": True},
            "tie_embeddings: expected False, since classes are no tokens; it is for head='masked'",
        ),
        ({"num_layers": 0}, "num_layers: expected an integer >= 1, got 0"),
        ({"pad_id": 7}, "pad_id: expected an id in every vocabulary, or None, got 7"),
    ],
)
def test_an_encoder_that_makes_no_sense_is_refused(changes, text):
    with pytest.raises(ConfigError, match=f"^{re.escape(text)}$"):
        EncoderConfig(**{"vocab_size": 7} | changes)


def test_every_combination_is_in_the_gradient_table_or_refused_with_a_reason():
    backend = get_backend("numpy", dtype="float64")
    configs = [case.build(backend).config for case in catalogue() if case.group == "model"]
    tried = {(type(made), made.positions, made.attention) for made in configs}
    tried_norms = {(type(made), made.norm, made.norm_order) for made in configs}
    assert {made.head for made in configs if isinstance(made, EncoderConfig)} == {"sequence", "tokens", "masked"}
    for kind, sizes in ((TransformerConfig, (7, 9)), (EncoderConfig, (7,)), (DecoderConfig, (7,))):
        for positions, attention in itertools.product(POSITIONS, ("full", "local", "linear")):
            window = 2 if attention == "local" else None
            if (kind, positions, attention) not in tried:
                with pytest.raises(ConfigError, match="; use "):
                    kind(*sizes, positions=positions, attention=attention, window=window)
        assert tried_norms >= {(kind, norm, order) for norm in ("layer", "batch") for order in ("post", "pre")}


def test_integers_of_numpy_are_integers():
    assert config(d_ff=np.int64(8)).d_ff == 8


def test_a_configuration_does_not_change():
    with pytest.raises(AttributeError):
        config().d_model = 8
