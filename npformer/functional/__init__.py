"""The mathematics: pure forward and backward pairs, one operation per file, each with its derivation.

In the order in which a Transformer is explained: ``linear``, ``relu``, ``gelu`` (with ``erf``),
``softmax``, ``dropout`` (with ``philox``), ``embedding``, ``positions``, ``layer_norm``,
``attention_mask``, ``attention``, ``heads``, ``residual``, ``post_norm``, ``add_norm``,
``feed_forward``, ``cross_entropy``. README.md in this folder states the contract they all keep.
"""

from .add_norm import add_norm_backward, add_norm_forward
from .attention import attention_backward, attention_forward, attention_weights
from .attention_mask import ALL_VISIBLE, AttentionMask
from .cross_entropy import cross_entropy_backward, cross_entropy_forward
from .dropout import dropout_backward, dropout_forward
from .embedding import embedding_backward, embedding_forward
from .erf import erf
from .feed_forward import feed_forward_backward, feed_forward_forward
from .gelu import gelu_backward, gelu_forward
from .heads import merge_heads, split_heads
from .layer_norm import layer_norm_backward, layer_norm_forward
from .linear import linear_backward, linear_forward
from .philox import Draw, philox_bits
from .positions import (
    learned_positions_backward,
    learned_positions_forward,
    sinusoidal_positions_backward,
    sinusoidal_positions_forward,
)
from .post_norm import post_norm_backward, post_norm_forward
from .relu import relu_backward, relu_forward
from .residual import residual_backward, residual_forward
from .softmax import softmax_backward, softmax_forward

__all__ = [
    "ALL_VISIBLE",
    "AttentionMask",
    "Draw",
    "add_norm_backward",
    "add_norm_forward",
    "attention_backward",
    "attention_forward",
    "attention_weights",
    "cross_entropy_backward",
    "cross_entropy_forward",
    "dropout_backward",
    "dropout_forward",
    "embedding_backward",
    "embedding_forward",
    "erf",
    "feed_forward_backward",
    "feed_forward_forward",
    "gelu_backward",
    "gelu_forward",
    "layer_norm_backward",
    "layer_norm_forward",
    "learned_positions_backward",
    "learned_positions_forward",
    "linear_backward",
    "linear_forward",
    "merge_heads",
    "philox_bits",
    "post_norm_backward",
    "post_norm_forward",
    "relu_backward",
    "relu_forward",
    "residual_backward",
    "residual_forward",
    "sinusoidal_positions_backward",
    "sinusoidal_positions_forward",
    "softmax_backward",
    "softmax_forward",
    "split_heads",
]
