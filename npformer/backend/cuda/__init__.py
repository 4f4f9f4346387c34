"""Kernels for NVIDIA GPUs (.cu) and what calls them, for any card that offers ``Card``."""

from __future__ import annotations

from dataclasses import replace

from npformer.backend.cuda.activations import activation_pairs
from npformer.backend.cuda.attention import attention_pairs
from npformer.backend.cuda.card import PRECISIONS, Card
from npformer.backend.cuda.cross_entropy import cross_entropy_pairs
from npformer.backend.cuda.dropout import dropout_pairs
from npformer.backend.cuda.embedding import embedding_pairs
from npformer.backend.cuda.feed_forward import feed_forward_pairs
from npformer.backend.cuda.layer_norm import norm_pairs
from npformer.backend.cuda.linear import linear_pairs
from npformer.backend.cuda.positions import position_pairs
from npformer.backend.cuda.softmax import softmax_pairs
from npformer.backend.ops import PLAIN, Ops

__all__ = ["PRECISIONS", "Card", "cuda_ops"]


def cuda_ops(card: Card) -> Ops:
    """The table of operations on a card; what has no kernel stays plain."""
    return replace(
        PLAIN,
        **attention_pairs(card),
        **linear_pairs(card),
        **activation_pairs(card),
        **softmax_pairs(card),
        **dropout_pairs(card),
        **embedding_pairs(card),
        **position_pairs(card),
        **norm_pairs(card),
        **feed_forward_pairs(card),
        **cross_entropy_pairs(card),
    )
