"""Layers: who owns parameters, and how the operations are put together.

In the order in which a Transformer is explained: ``parameter``, ``cache_stack``, ``call_tree``,
``layer``, ``initial``, ``linear``, ``embedding``, ``positions``, ``dropout``, ``layer_norm``,
``decode_state``, ``multi_head_attention``, ``feed_forward``, ``encoder_layer``, ``decoder_layer``,
``stacks``.
"""

from npformer.layers.cache_stack import CacheStack, NoCache
from npformer.layers.call_tree import RandomKey, Watch
from npformer.layers.decode_state import DecodeState, KeyValues, LayerState, Past
from npformer.layers.decoder_layer import DecoderLayer
from npformer.layers.dropout import Dropout
from npformer.layers.embedding import Embedding
from npformer.layers.encoder_layer import EncoderLayer
from npformer.layers.feed_forward import FeedForward
from npformer.layers.layer import Layer
from npformer.layers.layer_norm import LayerNorm
from npformer.layers.linear import Linear
from npformer.layers.multi_head_attention import Mechanism, MultiHeadAttention, ScaledDotProduct
from npformer.layers.parameter import Parameter, ParameterView
from npformer.layers.positions import LearnedPositions, SinusoidalPositions
from npformer.layers.stacks import DecoderStack, EncoderStack

__all__ = [
    "CacheStack",
    "DecodeState",
    "DecoderLayer",
    "DecoderStack",
    "Dropout",
    "Embedding",
    "EncoderLayer",
    "EncoderStack",
    "FeedForward",
    "KeyValues",
    "Layer",
    "LayerNorm",
    "LayerState",
    "LearnedPositions",
    "Linear",
    "Mechanism",
    "MultiHeadAttention",
    "NoCache",
    "Parameter",
    "ParameterView",
    "Past",
    "RandomKey",
    "ScaledDotProduct",
    "SinusoidalPositions",
    "Watch",
]
