"""The options of a model, checked when they are set."""

from __future__ import annotations

from dataclasses import dataclass, fields
from numbers import Integral
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from npformer.errors import ConfigError
from npformer.functional.dropout import dropout_threshold
from npformer.functional.feed_forward import ACTIVATIONS
from npformer.layers.multi_head_attention import expect_divisible
from npformer.layers.norms import NORMS, NormName
from npformer.layers.residual import expect_norm_order
from npformer.layers.self_attention import SelfAttention

#: The words that these options may have.
CHOICES = {
    "activation": tuple(ACTIVATIONS),
    "positions": ("sinusoidal", "learned", "rotary", "relative", "none"),
    "norm": tuple(NORMS),
    "init": ("small", "xavier"),
}

#: The largest widths (d_model, d_ff), numbers of layers, and other sizes: far more than fits into memory, and small
#: enough that a product of two of them fits into 64 bits.
MOST_WIDTH, MOST_LAYERS, MOST = 2**20, 10_000, 2**31 - 1


class Ids(NamedTuple):
    """One array of a batch: its name, its shape in letters, and the limit of its integers."""

    name: str
    shape: str
    below: int


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


#: The pad_id of a model in whose vocabulary no id is padding.
NO_PAD = -1


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The options of every model. Raises ConfigError for values or combinations that make no sense.

    Widths are at most 2²⁰, layers 10,000, and other sizes 2³¹ − 1. The text beside an option says what it means;
    ``npformer train TASK --options`` and docs/options.md show it.

    init "xavier" starts embeddings, times √C, with deviation 1, as PyTorch's do, and the output projection like every
    matrix. A normalised h then gives logits of variance 2C/(C + V), so the first loss is well above ln V; and tokens
    speak twice as loud as sinusoidal positions, whose mean square is ½. "small" starts embeddings with deviation ½ and
    the output projection with 0.02: the first loss is ln V, and attention sees positions from the first step on.
    examples/experiments/initialisation.py compares the two over ten seeds and three tasks: from "small" the median run
    of each task needs fewer steps, in both norm orders, so it is the default.
    """

    d_model: Annotated[int, "width of the vector of a token"] = 512
    num_heads: Annotated[int, "heads of each attention; they divide d_model"] = 8
    d_ff: Annotated[int, "width inside the feed-forward"] = 2048
    max_seq_len: Annotated[int, "positions of a learned table; other positions have no last one"] = 512
    dropout: Annotated[float, "share of numbers that dropout sets to 0 in training"] = 0.1
    norm_order: Annotated[Literal["post", "pre"], "norm after the residual sum, or before the sub-layer"] = "post"
    final_norm: Annotated[bool | None, "a norm at the end of each stack; none: only with norm_order pre"] = None
    norm: Annotated[NormName, "layer: LayerNorm, batch: BatchNorm; to add one: docs/adding-an-operation.md"] = "layer"
    activation: Annotated[Literal["relu", "gelu"], "function inside the feed-forward"] = "relu"
    positions: Annotated[
        Literal["sinusoidal", "learned", "rotary", "relative", "none"],
        "how the model knows the order of tokens; rotary is RoPE, relative is T5's bias",
    ] = "sinusoidal"
    attention: Annotated[
        Literal["full", "local", "linear"], "which keys self-attention reads: all, a few, or all at linear cost"
    ] = "full"
    window: Annotated[int | None, "of local attention: keys closer than this are read"] = None
    stride: Annotated[int | None, "of local attention: keys at a multiple of this distance are read"] = None
    scale_embedding: Annotated[bool, "multiply embeddings by the square root of d_model"] = True
    tie_embeddings: Annotated[bool, "one table for all embeddings and the output map"] = False
    init: Annotated[Literal["small", "xavier"], "how parameters start; small: the first loss is ln V"] = "small"
    recompute: Annotated[bool, "gradient checkpointing: layers run forward again in backward, to save memory"] = False
    pad_id: Annotated[int, "id of [PAD]; None, kept as -1: no id is padding"] = 0

    def __post_init__(self) -> None:
        for field in fields(self):  # a NumPy number would work in computations, but could not be saved
            value = getattr(self, field.name)
            if value is None and field.name == "pad_id":
                object.__setattr__(self, "pad_id", NO_PAD)
            for theirs, ours in ((np.integer, int), (np.floating, float), (np.bool_, bool)):
                if isinstance(value, theirs):
                    object.__setattr__(self, field.name, ours(value))
        self._expect_at_least_one("d_model", "d_ff", at_most=MOST_WIDTH)
        self._expect_at_least_one("max_seq_len")
        if not _is_whole(self.num_heads):
            raise ConfigError(f"num_heads: expected an integer >= 1, got {self.num_heads!r}")
        expect_divisible(self.d_model, self.num_heads)
        for name in ("scale_embedding", "tie_embeddings", "recompute", "final_norm"):
            value = getattr(self, name)
            if not isinstance(value, bool) and (name, value) != ("final_norm", None):
                raise ConfigError(f"{name}: expected True or False, got {value!r}")
        if not isinstance(self.dropout, int | float):
            raise ConfigError(f"dropout: expected a number, got {self.dropout!r}")
        dropout_threshold(self.dropout)
        expect_norm_order(self.norm_order)
        for name, words in CHOICES.items():
            if getattr(self, name) not in words:
                raise ConfigError(f"{name}: expected one of {', '.join(words)}, got {getattr(self, name)!r}")
        self.self_attention(causal=False)
        self._expect_at_most(MOST, "window", "stride")
        if self.positions == "rotary" and (self.d_model // self.num_heads) % 2:
            raise ConfigError(
                f"positions: expected heads of even width for rotary ones, got {self.d_model // self.num_heads}"
            )
        if self.norm == "batch" and self.recompute:
            raise ConfigError(
                "recompute: expected False with norm='batch', whose statistics would be taken from the batch twice"
            )

    @property
    def batch(self) -> tuple[Ids, ...]:
        """The arrays of a training batch: the model's inputs, and its targets last."""
        raise NotImplementedError(f"{type(self).__name__} must define batch")

    def self_attention(self, *, causal: bool) -> SelfAttention:
        """The options of self-attention."""
        encoding = self.positions if self.positions in ("rotary", "relative") else "absolute"
        return SelfAttention(self.attention, self.window, self.stride, encoding, causal=causal)

    def layer_options(self, *, causal: bool) -> dict[str, Any]:
        """The options of a stack and of each of its layers."""
        return {
            "final_norm": self.final_norm, "recompute": self.recompute, "num_heads": self.num_heads,
            "d_ff": self.d_ff, "dropout": self.dropout, "norm_order": self.norm_order, "norm": self.norm,
            "activation": self.activation, "attention": self.self_attention(causal=causal),
        }  # fmt: skip

    def _expect_at_least_one(self, *names: str, at_most: int = MOST) -> None:
        for name in names:
            value = getattr(self, name)
            if not _is_whole(value) or value < 1:
                raise ConfigError(f"{name}: expected an integer >= 1, got {value!r}")
        self._expect_at_most(at_most, *names)

    def _expect_at_most(self, most: int, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            if value is not None and not _is_whole(value):
                raise ConfigError(f"{name}: expected an integer, got {value!r}")
            if value is not None and value > most:
                number = f"{value:,}" if value < 2**64 else f"a number of {value.bit_length()} bits"
                raise ConfigError(f"{name}: expected at most {most:,}, got {number}")

    def _expect_pad_in(self, *vocab_sizes: int) -> None:
        if not _is_whole(self.pad_id) or not NO_PAD <= self.pad_id < min(vocab_sizes):
            raise ConfigError(f"pad_id: expected an id in every vocabulary, or None, got {self.pad_id}")

    @property
    def filler(self) -> int:
        """What stands behind a text that has ended: the pad, 0 where no id is one."""
        return max(self.pad_id, 0)


@dataclass(frozen=True)
class TransformerConfig(ModelConfig):
    """An encoder-decoder. With tie_embeddings source, target and output share one table."""

    src_vocab_size: Annotated[int, "pieces of the source's vocabulary"]
    tgt_vocab_size: Annotated[int, "pieces of the target's vocabulary"]
    num_encoder_layers: Annotated[int, "layers of the encoder"] = 6
    num_decoder_layers: Annotated[int, "layers of the decoder"] = 6

    def __post_init__(self) -> None:
        super().__post_init__()
        self._expect_at_least_one("src_vocab_size", "tgt_vocab_size")
        self._expect_at_least_one("num_encoder_layers", "num_decoder_layers", at_most=MOST_LAYERS)
        if self.tie_embeddings and self.src_vocab_size != self.tgt_vocab_size:
            raise ConfigError(
                f"tie_embeddings: expected equal vocabularies, got src_vocab_size={self.src_vocab_size} "
                f"and tgt_vocab_size={self.tgt_vocab_size}; use one vocabulary for both, or do not tie"
            )
        self._expect_pad_in(self.src_vocab_size, self.tgt_vocab_size)

    @property
    def batch(self) -> tuple[Ids, ...]:
        """src (B, S), tgt_in and tgt_out (B, T)."""
        source, target = self.src_vocab_size, self.tgt_vocab_size
        return Ids("src", "BS", source), Ids("tgt_in", "BT", target), Ids("tgt_out", "BT", target)


@dataclass(frozen=True)
class EncoderConfig(ModelConfig):
    """An encoder with a head. num_classes counts the classes of sequences or tokens; not for masked tokens.

    head is "sequence" (one class for each sequence), "tokens" (one for each token) or "masked" (which
    token was hidden); tie_embeddings is only for "masked".
    """

    vocab_size: Annotated[int, "pieces of the vocabulary"]
    head: Annotated[
        Literal["sequence", "tokens", "masked"], "what is predicted: a class of the text, of each token, hidden tokens"
    ] = "masked"
    num_classes: Annotated[int | None, "classes, [PAD] counted; none for hidden tokens"] = None
    num_layers: Annotated[int, "layers of the model"] = 6

    def __post_init__(self) -> None:
        super().__post_init__()
        self._expect_at_least_one("vocab_size")
        self._expect_at_least_one("num_layers", at_most=MOST_LAYERS)
        if self.head not in ("sequence", "tokens", "masked"):
            raise ConfigError(f"head: expected sequence, tokens or masked, got {self.head!r}")
        if self.head == "masked" and self.num_classes is not None:
            raise ConfigError(f"num_classes: expected none for masked tokens, got {self.num_classes}: it is vocab_size")
        if self.head != "masked":
            self._expect_at_least_one("num_classes")
            if self.tie_embeddings:
                raise ConfigError(
                    "tie_embeddings: expected False, since classes are no tokens; it is for head='masked'"
                )
        self._expect_pad_in(self.vocab_size)

    @property
    def batch(self) -> tuple[Ids, ...]:
        """tokens (B, T), and targets (B,) for head "sequence", else (B, T)."""
        shape = "B" if self.head == "sequence" else "BT"
        return Ids("tokens", "BT", self.vocab_size), Ids("targets", shape, self.num_classes or self.vocab_size)


@dataclass(frozen=True)
class DecoderConfig(ModelConfig):
    """A decoder-only model. With tie_embeddings input and output share one table."""

    vocab_size: Annotated[int, "pieces of the vocabulary"]
    num_layers: Annotated[int, "layers of the model"] = 6

    def __post_init__(self) -> None:
        super().__post_init__()
        self._expect_at_least_one("vocab_size")
        self._expect_at_least_one("num_layers", at_most=MOST_LAYERS)
        self._expect_pad_in(self.vocab_size)

    @property
    def batch(self) -> tuple[Ids, ...]:
        """tokens (B, T), and targets (B, T), the token after each."""
        return Ids("tokens", "BT", self.vocab_size), Ids("targets", "BT", self.vocab_size)
