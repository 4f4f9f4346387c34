"""A configuration that makes no sense is refused where it is given."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from npformer.errors import ConfigError
from npformer.models import TransformerConfig

COUNTS = ("src_vocab_size", "tgt_vocab_size", "d_model", "num_encoder_layers", "num_decoder_layers", "d_ff",
          "max_seq_len")  # fmt: skip


def config(**changes: Any) -> TransformerConfig:
    return TransformerConfig(**({"src_vocab_size": 7, "tgt_vocab_size": 9, "d_model": 12, "num_heads": 3} | changes))


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("value", [0, -1, 8.0, "8"])
def test_a_count_must_be_a_positive_integer(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"^{name}: expected an integer >= 1, got {re.escape(repr(value))}$"):
        config(**{name: value})


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"num_heads": 5}, "num_heads: expected a divisor of d_model=12, got 5; the nearest is 4"),
        ({"num_heads": 0}, "num_heads: expected a divisor of d_model=12, got 0; the nearest is 1"),
        ({"dropout": 1.0}, "dropout: expected a rate with 0 <= rate < 1 (at most 65535/65536), got 1.0"),
        ({"dropout": -0.1}, "dropout: expected a rate with 0 <= rate < 1 (at most 65535/65536), got -0.1"),
        ({"dropout": float("nan")}, "dropout: expected a rate with 0 <= rate < 1 (at most 65535/65536), got nan"),
        ({"norm_order": "Post"}, "norm_order: expected 'post' or 'pre', got 'Post'"),
        ({"activation": "swish"}, "activation: expected one of relu, gelu, got 'swish'"),
        ({"positions": "circular"}, "positions: expected one of sinusoidal, learned, rotary, relative, none, got 'circular'"),
        (
            {"tie_embeddings": True},
            "tie_embeddings: expected equal vocabularies, got src_vocab_size=7 and tgt_vocab_size=9; "
            "use one vocabulary for both, or do not tie",
        ),
        ({"pad_id": -1}, "pad_id: expected an id in both vocabularies, got -1"),
        ({"pad_id": 7}, "pad_id: expected an id in both vocabularies, got 7"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(text)}$"):
        config(**changes)


def test_integers_of_numpy_are_integers() -> None:
    assert config(d_ff=np.int64(8)).d_ff == 8


def test_a_configuration_does_not_change() -> None:
    with pytest.raises(AttributeError):
        config().d_model = 8  # type: ignore[misc]


def test_the_defaults_are_those_of_the_paper() -> None:
    default = TransformerConfig(1000, 1000)
    assert (default.d_model, default.num_heads, default.d_ff) == (512, 8, 2048)
    assert (default.num_encoder_layers, default.num_decoder_layers, default.dropout) == (6, 6, 0.1)
    assert (default.norm_order, default.activation, default.scale_embedding, default.tie_embeddings) == (
        "post", "relu", True, False)  # fmt: skip
    assert (default.final_norm, default.pad_id, default.positions) == (None, 0, "sinusoidal")
