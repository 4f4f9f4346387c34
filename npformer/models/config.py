"""The options of a model, checked where they are given."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Literal

from npformer.errors import ConfigError
from npformer.functional.dropout import dropout_threshold
from npformer.functional.feed_forward import ACTIVATIONS
from npformer.layers.encoder_layer import expect_norm_order
from npformer.layers.multi_head_attention import expect_divisible


@dataclass(frozen=True)
class TransformerConfig:
    """What an encoder-decoder Transformer is made of. Raises ConfigError for values that make no sense.

    max_seq_len bounds learned positions; sinusoidal ones have no last position. final_norm None
    means: only for pre-LN. tie_embeddings lets source, target and output share one table. recompute
    lets backward compute each layer's forward again instead of remembering it: less memory, more time.
    """

    src_vocab_size: int
    tgt_vocab_size: int
    d_model: int = 512
    num_heads: int = 8
    num_encoder_layers: int = 6
    num_decoder_layers: int = 6
    d_ff: int = 2048
    max_seq_len: int = 512
    dropout: float = 0.1
    norm_order: Literal["post", "pre"] = "post"
    final_norm: bool | None = None
    activation: Literal["relu", "gelu"] = "relu"
    positions: Literal["sinusoidal", "learned"] = "sinusoidal"
    scale_embedding: bool = True
    tie_embeddings: bool = False
    recompute: bool = False
    pad_id: int = 0

    def __post_init__(self) -> None:
        at_least_one = ("src_vocab_size", "tgt_vocab_size", "d_model", "num_encoder_layers", "num_decoder_layers",
                        "d_ff", "max_seq_len")  # fmt: skip
        for name in at_least_one:
            value = getattr(self, name)
            if not isinstance(value, Integral) or value < 1:
                raise ConfigError(f"{name}: expected an integer >= 1, got {value!r}")
        expect_divisible(self.d_model, self.num_heads)
        dropout_threshold(self.dropout)
        expect_norm_order(self.norm_order)
        if self.activation not in ACTIVATIONS:
            raise ConfigError(f"activation: expected one of {', '.join(ACTIVATIONS)}, got {self.activation!r}")
        if self.positions not in ("sinusoidal", "learned"):
            raise ConfigError(f"positions: expected 'sinusoidal' or 'learned', got {self.positions!r}")
        if self.tie_embeddings and self.src_vocab_size != self.tgt_vocab_size:
            raise ConfigError(
                f"tie_embeddings: expected equal vocabularies, got src_vocab_size={self.src_vocab_size} "
                f"and tgt_vocab_size={self.tgt_vocab_size}; use one vocabulary for both, or do not tie"
            )
        if not 0 <= self.pad_id < min(self.src_vocab_size, self.tgt_vocab_size):
            raise ConfigError(f"pad_id: expected an id in both vocabularies, got {self.pad_id}")
