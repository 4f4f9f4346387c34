"""Layers: they own the parameters and compose the operations of ``functional``.

The files, in the order in which a Transformer is explained: ``owner``, ``parameter``, ``cache_stack``, ``call_tree``,
``layer``, ``initializers``, ``linear``, ``embedding``, ``positions``, ``rotary``, ``relative_bias``, ``dropout``,
``layer_norm``, ``batch_norm``, ``norms``, ``decode_state``, ``mechanisms``, ``multi_head_attention``,
``self_attention``, ``feed_forward``, ``residual``, ``encoder_layer``, ``decoder_layer``, ``stacks``; and the
predecessors of the Transformer: ``gru``, ``conv1d``.
"""

from npformer.layers.batch_norm import BatchNorm
from npformer.layers.cache_stack import CacheStack
from npformer.layers.call_tree import INFERENCE, AttentionRecorder, Context, RandomKey
from npformer.layers.conv1d import Conv1d
from npformer.layers.decode_state import DecodeState, KeyValues, LayerState, Past
from npformer.layers.decoder_layer import DecoderLayer
from npformer.layers.dropout import Dropout
from npformer.layers.embedding import Embedding
from npformer.layers.encoder_layer import EncoderLayer
from npformer.layers.feed_forward import FeedForward
from npformer.layers.gru import Gru
from npformer.layers.layer import Layer
from npformer.layers.layer_norm import LayerNorm
from npformer.layers.linear import Linear
from npformer.layers.mechanisms import LinearAttention, Local, Mechanism, ScaledDotProduct
from npformer.layers.multi_head_attention import MultiHeadAttention
from npformer.layers.parameter import Buffer, Parameter, ParameterView
from npformer.layers.positions import LearnedPositions, RelativeBias, Rotary, SinusoidalPositions
from npformer.layers.self_attention import SelfAttention
from npformer.layers.stacks import DecoderStack, EncoderStack

__all__ = [
    "INFERENCE",
    "AttentionRecorder",
    "BatchNorm",
    "Buffer",
    "CacheStack",
    "Context",
    "Conv1d",
    "DecodeState",
    "DecoderLayer",
    "DecoderStack",
    "Dropout",
    "Embedding",
    "EncoderLayer",
    "EncoderStack",
    "FeedForward",
    "Gru",
    "KeyValues",
    "Layer",
    "LayerNorm",
    "LayerState",
    "LearnedPositions",
    "Linear",
    "LinearAttention",
    "Local",
    "Mechanism",
    "MultiHeadAttention",
    "Parameter",
    "ParameterView",
    "Past",
    "RandomKey",
    "RelativeBias",
    "Rotary",
    "ScaledDotProduct",
    "SelfAttention",
    "SinusoidalPositions",
]
