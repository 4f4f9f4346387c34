"""The table of NumPy's own kernels: fast ones for nearly every operation that a layer calls.

``relu`` and ``softmax`` stay plain: no layer calls them, since feed_forward and attention contain them.
So do ``gru`` and ``conv1d``, whose time is that of their products.
"""

from __future__ import annotations

from dataclasses import replace

from npformer.backend.numpy.adam import adam_update
from npformer.backend.numpy.add_norm import add_norm_backward, add_norm_forward
from npformer.backend.numpy.attention import (
    attention_backward,
    attention_forward,
    biased_attention_backward,
    biased_attention_forward,
)
from npformer.backend.numpy.batch_norm import (
    batch_norm_backward,
    batch_norm_forward,
    batch_norm_inference_backward,
    batch_norm_inference_forward,
)
from npformer.backend.numpy.cross_entropy import cross_entropy_backward, cross_entropy_forward
from npformer.backend.numpy.dropout import dropout_backward, dropout_forward
from npformer.backend.numpy.embedding import embedding_backward_into, embedding_forward
from npformer.backend.numpy.feed_forward import feed_forward_backward, feed_forward_forward
from npformer.backend.numpy.gelu import gelu_backward, gelu_forward
from npformer.backend.numpy.layer_norm import layer_norm_backward, layer_norm_forward
from npformer.backend.numpy.linear import linear_backward, linear_forward
from npformer.backend.numpy.linear_attention import linear_attention_backward, linear_attention_forward
from npformer.backend.numpy.local_attention import local_attention_backward, local_attention_forward
from npformer.backend.numpy.positions import learned_positions_backward, sinusoidal_positions_forward
from npformer.backend.numpy.post_norm import post_norm_backward, post_norm_forward
from npformer.backend.numpy.relative_bias import relative_bias_backward, relative_bias_forward
from npformer.backend.numpy.residual import residual_backward, residual_forward
from npformer.backend.numpy.rotary import rotary_backward, rotary_forward
from npformer.backend.ops import PLAIN, Ops, Pair

__all__ = ["KERNELS", "adam_update"]

KERNELS: Ops = replace(
    PLAIN,
    linear=Pair(linear_forward, linear_backward),
    gelu=Pair(gelu_forward, gelu_backward),
    dropout=Pair(dropout_forward, dropout_backward),
    embedding=Pair(embedding_forward, embedding_backward_into),
    sinusoidal_positions=Pair(sinusoidal_positions_forward, PLAIN.sinusoidal_positions.backward),
    learned_positions=Pair(PLAIN.learned_positions.forward, learned_positions_backward),
    rotary=Pair(rotary_forward, rotary_backward),
    relative_bias=Pair(relative_bias_forward, relative_bias_backward),
    layer_norm=Pair(layer_norm_forward, layer_norm_backward),
    batch_norm=Pair(batch_norm_forward, batch_norm_backward),
    batch_norm_inference=Pair(batch_norm_inference_forward, batch_norm_inference_backward),
    attention=Pair(attention_forward, attention_backward),
    biased_attention=Pair(biased_attention_forward, biased_attention_backward),
    local_attention=Pair(local_attention_forward, local_attention_backward),
    linear_attention=Pair(linear_attention_forward, linear_attention_backward),
    residual=Pair(residual_forward, residual_backward),
    post_norm=Pair(post_norm_forward, post_norm_backward),
    add_norm=Pair(add_norm_forward, add_norm_backward),
    feed_forward=Pair(feed_forward_forward, feed_forward_backward),
    cross_entropy=Pair(cross_entropy_forward, cross_entropy_backward),
)
