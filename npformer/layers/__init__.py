"""Layers: who owns parameters, and how the operations are put together.

In the order in which a Transformer is explained: ``parameter``, ``cache_stack``, ``call_tree``,
``layer``, ``initial``, ``linear``, ``embedding``, ``positions``, ``dropout``, ``layer_norm``,
``multi_head_attention``, ``feed_forward``, ``encoder_layer``, ``decoder_layer``, ``stacks``.
"""

from .cache_stack import CacheStack, NoCache
from .call_tree import RandomKey, Watch
from .decoder_layer import DecoderLayer
from .dropout import Dropout
from .embedding import Embedding
from .encoder_layer import EncoderLayer
from .feed_forward import FeedForward
from .layer import Layer
from .layer_norm import LayerNorm
from .linear import Linear
from .multi_head_attention import Mechanism, MultiHeadAttention, ScaledDotProduct
from .parameter import Parameter, ParameterView
from .positions import LearnedPositions, SinusoidalPositions
from .stacks import DecoderStack, EncoderStack

__all__ = [
    "CacheStack",
    "DecoderLayer",
    "DecoderStack",
    "Dropout",
    "Embedding",
    "EncoderLayer",
    "EncoderStack",
    "FeedForward",
    "Layer",
    "LayerNorm",
    "LearnedPositions",
    "Linear",
    "Mechanism",
    "MultiHeadAttention",
    "NoCache",
    "Parameter",
    "ParameterView",
    "RandomKey",
    "ScaledDotProduct",
    "SinusoidalPositions",
    "Watch",
]
