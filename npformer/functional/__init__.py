"""The mathematics: pure forward and backward pairs, one operation per file, each with its derivation.

The files, in the order in which a Transformer is explained: ``linear``, ``relu``, ``gelu`` (with ``erf``),
``softmax``, ``dropout`` (with ``philox``), ``embedding``, ``positions``, ``rotary``,
``relative_bias``, ``layer_norm``, ``batch_norm``, ``attention_mask``, ``attention``,
``biased_attention``, ``local_attention`` (with ``attention_pattern``), ``linear_attention``, ``heads``,
``residual``, ``post_norm``, ``add_norm``, ``feed_forward``, ``cross_entropy``; and its predecessors ``gru``,
``conv1d``. Each file ends with its operation's row (``operation``); ``arrays`` holds what they share,
and ``derivation`` reads the formulas of a docstring.
README.md in this folder states the contract that every pair keeps, the symbols, and ten things to see in the
derivations.
"""

from importlib import import_module
from pkgutil import iter_modules

from npformer.functional.add_norm import add_norm_backward, add_norm_forward
from npformer.functional.attention import attention_backward, attention_forward, attention_weights
from npformer.functional.attention_mask import ALL_VISIBLE, AttentionMask
from npformer.functional.batch_norm import (
    batch_norm_backward,
    batch_norm_forward,
    batch_norm_inference_backward,
    batch_norm_inference_forward,
)
from npformer.functional.biased_attention import (
    biased_attention_backward,
    biased_attention_forward,
    biased_attention_weights,
)
from npformer.functional.conv1d import conv1d_backward, conv1d_forward
from npformer.functional.cross_entropy import cross_entropy_backward, cross_entropy_forward
from npformer.functional.dropout import dropout_backward, dropout_forward
from npformer.functional.embedding import embedding_backward, embedding_forward
from npformer.functional.erf import erf
from npformer.functional.feed_forward import feed_forward_backward, feed_forward_forward
from npformer.functional.gelu import gelu_backward, gelu_forward
from npformer.functional.gru import gru_backward, gru_forward
from npformer.functional.heads import merge_heads, split_heads
from npformer.functional.layer_norm import layer_norm_backward, layer_norm_forward
from npformer.functional.linear import linear_backward, linear_forward
from npformer.functional.linear_attention import linear_attention_backward, linear_attention_forward
from npformer.functional.local_attention import local_attention_backward, local_attention_forward
from npformer.functional.operation import Operation
from npformer.functional.philox import Draw, philox_bits
from npformer.functional.positions import (
    learned_positions_backward,
    learned_positions_forward,
    sinusoidal_positions_backward,
    sinusoidal_positions_forward,
)
from npformer.functional.post_norm import post_norm_backward, post_norm_forward
from npformer.functional.relative_bias import relative_bias_backward, relative_bias_forward
from npformer.functional.relu import relu_backward, relu_forward
from npformer.functional.residual import residual_backward, residual_forward
from npformer.functional.rotary import rotary_backward, rotary_forward
from npformer.functional.softmax import softmax_backward, softmax_forward

_files = sorted((info.name for info in iter_modules(__path__)), key=lambda name: (__doc__ or "").find(f"``{name}``"))
#: The row of every operation by its name, in the order of the files in the docstring above.
OPERATIONS: dict[str, Operation] = {
    row.name: row
    for file in _files
    for row in vars(import_module(f"{__name__}.{file}")).values()
    if isinstance(row, Operation)
}

__all__ = [
    "ALL_VISIBLE",
    "OPERATIONS",
    "AttentionMask",
    "Draw",
    "Operation",
    "add_norm_backward",
    "add_norm_forward",
    "attention_backward",
    "attention_forward",
    "attention_weights",
    "batch_norm_backward",
    "batch_norm_forward",
    "batch_norm_inference_backward",
    "batch_norm_inference_forward",
    "biased_attention_backward",
    "biased_attention_forward",
    "biased_attention_weights",
    "conv1d_backward",
    "conv1d_forward",
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
    "gru_backward",
    "gru_forward",
    "layer_norm_backward",
    "layer_norm_forward",
    "learned_positions_backward",
    "learned_positions_forward",
    "linear_attention_backward",
    "linear_attention_forward",
    "linear_backward",
    "linear_forward",
    "local_attention_backward",
    "local_attention_forward",
    "merge_heads",
    "philox_bits",
    "post_norm_backward",
    "post_norm_forward",
    "relative_bias_backward",
    "relative_bias_forward",
    "relu_backward",
    "relu_forward",
    "residual_backward",
    "residual_forward",
    "rotary_backward",
    "rotary_forward",
    "sinusoidal_positions_backward",
    "sinusoidal_positions_forward",
    "softmax_backward",
    "softmax_forward",
    "split_heads",
]
