"""Compiled kernels: what NumPy cannot say in one pass over memory, turned into machine code by Numba.

To import this compiles nothing; ``compiling`` says when kernels are compiled, and ``keeping`` where they are kept.
``functional`` stays the truth; each pair here is held against its plain one by the tests.
"""

from __future__ import annotations

from dataclasses import replace

from npformer.backend.numba import elementwise  # noqa: F401 - declares kernels
from npformer.backend.numba.adam import adam_update
from npformer.backend.numba.attention import ATTENTION
from npformer.backend.numba.beam_choice import beam_choice
from npformer.backend.numba.compiling import compile_ahead, compile_all
from npformer.backend.numba.cross_entropy import CROSS_ENTROPY
from npformer.backend.numba.decode_step import decoder_steps
from npformer.backend.numba.dropout import DROPOUT, RESIDUAL
from npformer.backend.numba.embedding import EMBEDDING
from npformer.backend.numba.encode_texts import encoder_of_texts
from npformer.backend.numba.feed_forward import FEED_FORWARD
from npformer.backend.numba.layer_norm import ADD_NORM, LAYER_NORM, POST_NORM
from npformer.backend.numba.linear import LINEAR
from npformer.backend.numba.positions import LEARNED_POSITIONS
from npformer.backend.numba.replay import captured_part
from npformer.backend.numpy.kernels import KERNELS
from npformer.backend.ops import Ops

__all__ = [
    "OPS", "adam_update", "beam_choice", "captured_part", "compile_ahead", "compile_all", "decoder_steps",
    "encoder_of_texts",
]  # fmt: skip

OPS: Ops = replace(
    KERNELS,
    linear=LINEAR,
    dropout=DROPOUT,
    embedding=EMBEDDING,
    layer_norm=LAYER_NORM,
    learned_positions=LEARNED_POSITIONS,
    attention=ATTENTION,
    residual=RESIDUAL,
    post_norm=POST_NORM,
    add_norm=ADD_NORM,
    feed_forward=FEED_FORWARD,
    cross_entropy=CROSS_ENTROPY,
)
