"""The options of a layer's self-attention, checked as a whole. Each layer builds its attention from them."""

from __future__ import annotations

from dataclasses import dataclass

from npformer.backend import Backend
from npformer.errors import ConfigError
from npformer.functional.attention_mask import AttentionMask
from npformer.functional.relative_bias import expect_buckets
from npformer.layers.initializers import Seed
from npformer.layers.mechanisms import LinearAttention, Local, Mechanism, ScaledDotProduct
from npformer.layers.multi_head_attention import MultiHeadAttention
from npformer.layers.positions import RelativeBias, Rotary

ATTENTIONS = ("full", "local", "linear")
#: The position encoding inside attention. "absolute": none; positions are added to the embeddings, or nowhere.
POSITION_ENCODINGS = ("absolute", "rotary", "relative")


@dataclass(frozen=True)
class SelfAttention:
    """The options. Raises ConfigError for unknown words, and for impossible combinations, with the reason."""

    attention: str = "full"
    window: int | None = None  # of local attention, as is stride
    stride: int | None = None
    position_encoding: str = "absolute"
    num_buckets: int = 32  # of relative positions, as is max_distance
    max_distance: int = 128
    causal: bool = False  # whether its masks are causal: then no bucket is used for later keys

    def __post_init__(self) -> None:
        if self.attention not in ATTENTIONS:
            raise ConfigError(f"attention: expected one of {', '.join(ATTENTIONS)}, got {self.attention!r}")
        if self.position_encoding not in POSITION_ENCODINGS:
            known = ", ".join(POSITION_ENCODINGS)
            raise ConfigError(f"position_encoding: expected one of {known}, got {self.position_encoding!r}")
        AttentionMask(window=self.window, stride=self.stride)  # refuses what is < 1
        self.mechanism()  # refuses local attention to nothing
        if self.attention != "local" and (self.window or self.stride):
            raise ConfigError(
                f"window, stride: expected none for {self.attention} attention, got {self.window} and {self.stride}; "
                "they are local attention's"
            )
        if self.position_encoding == "relative" and self.attention != "full":
            raise ConfigError(
                f"positions: expected no relative bias with {self.attention} attention, which computes no full matrix "
                "of scores to add it to; use rotary positions, or full attention"
            )
        if self.position_encoding == "relative":
            expect_buckets(self.num_buckets, self.causal, self.max_distance)

    def mechanism(self) -> Mechanism:
        """How queries attend to keys."""
        if self.attention == "local":
            return Local(self.window, self.stride)
        return LinearAttention() if self.attention == "linear" else ScaledDotProduct()

    def build(
        self, d_model: int, num_heads: int, *, dropout: float, backend: Backend, seed: Seed
    ) -> MultiHeadAttention:
        """A layer of this kind. Raises ConfigError as MultiHeadAttention does."""
        bias = None
        if self.position_encoding == "relative":
            bias = RelativeBias(
                num_heads, causal=self.causal, num_buckets=self.num_buckets, max_distance=self.max_distance,
                backend=backend, seed=seed,
            )  # fmt: skip
        return MultiHeadAttention(
            d_model,
            num_heads,
            mechanism=self.mechanism(),
            rotation=Rotary() if self.position_encoding == "rotary" else None,
            score_bias=bias,
            dropout=dropout,
            backend=backend,
            seed=seed,
        )
