"""The options of a model, checked when they are set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_type_hints

import numpy as np

from npformer.errors import ConfigError, whole_number
from npformer.functional.dropout import dropout_threshold
from npformer.layers.multi_head_attention import expect_divisible
from npformer.layers.norms import NormName
from npformer.layers.self_attention import SelfAttention

#: The largest whole numbers: far more than fits into memory, and small enough that a product of two of them fits into
#: 64 bits.
LAYERS = ("num_layers", "num_encoder_layers", "num_decoder_layers")
LIMITS, MOST = {"d_model": 2**20, "d_ff": 2**20} | dict.fromkeys(LAYERS, 10_000), 2**31 - 1


class Ids(NamedTuple):
    """One array of a batch: its name, its shape in letters, and the limit of its integers."""

    name: str
    shape: str
    below: int


#: The pad_id of a model in whose vocabulary no id is padding.
NO_PAD = -1


@cache
def kinds_of(options: type) -> Mapping[str, Any]:
    """The type of each option of a configuration, in order: a Literal of its words, a number, or one or None."""
    hints = get_type_hints(options)
    return {field.name: hints[field.name] for field in fields(options)}


def _expect(name: str, kind: Any, value: Any) -> None:
    """Raise ConfigError unless an option's value is of its kind."""
    bare = get_args(kind)[0] if isinstance(kind, UnionType) else kind
    if (words := get_args(bare)) and value not in words:
        raise ConfigError(f"{name}: expected one of {', '.join(words)}, got {value!r}")
    if bare is bool and not isinstance(value, bool):
        raise ConfigError(f"{name}: expected True or False, got {value!r}")
    if bare is float and not isinstance(value, int | float):
        raise ConfigError(f"{name}: expected a number, got {value!r}")
    if bare is int and whole_number(name, value, at_least=1) > (most := LIMITS.get(name, MOST)):
        number = f"{value:,}" if value < 2**64 else f"a number of {value.bit_length()} bits"
        raise ConfigError(f"{name}: expected at most {most:,}, got {number}")


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
        own: type = type(self)
        kinds = kinds_of(own)
        for name, kind in kinds.items():
            value = getattr(self, name)
            if value is None and name == "pad_id":
                value = NO_PAD
            for theirs, ours in ((np.integer, int), (np.floating, float), (np.bool_, bool)):
                value = ours(value) if isinstance(value, theirs) else value  # NumPy's could not be saved
            object.__setattr__(self, name, value)
            if name != "pad_id" and not (value is None and isinstance(kind, UnionType)):
                _expect(name, kind, value)
        below = min(getattr(self, name) for name in kinds if name.endswith("vocab_size"))
        if type(self.pad_id) is not int or not NO_PAD <= self.pad_id < below:
            raise ConfigError(f"pad_id: expected an id in every vocabulary, or None, got {self.pad_id}")
        expect_divisible(self.d_model, self.num_heads)
        dropout_threshold(self.dropout)
        self.self_attention(causal=False)
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
        if self.tie_embeddings and self.src_vocab_size != self.tgt_vocab_size:
            raise ConfigError(
                f"tie_embeddings: expected equal vocabularies, got src_vocab_size={self.src_vocab_size} "
                f"and tgt_vocab_size={self.tgt_vocab_size}; use one vocabulary for both, or do not tie"
            )

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
        if self.head == "masked" and self.num_classes is not None:
            raise ConfigError(f"num_classes: expected none for masked tokens, got {self.num_classes}: it is vocab_size")
        if self.head != "masked" and self.num_classes is None:
            raise ConfigError("num_classes: expected an integer >= 1, got None")
        if self.head != "masked" and self.tie_embeddings:
            raise ConfigError("tie_embeddings: expected False, since classes are no tokens; it is for head='masked'")

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

    @property
    def batch(self) -> tuple[Ids, ...]:
        """tokens (B, T), and targets (B, T), the token after each."""
        return Ids("tokens", "BT", self.vocab_size), Ids("targets", "BT", self.vocab_size)
