"""Bodies for NVIDIA GPUs: kernels of our own (.cu) and what calls them, for any card that offers ``Card``."""

from __future__ import annotations

from dataclasses import replace

from npformer.backend.cuda.card import PRECISIONS, Card
from npformer.backend.cuda.layer_norm import norm_pairs
from npformer.backend.ops import PLAIN, Ops

__all__ = ["PRECISIONS", "Card", "cuda_ops"]


def cuda_ops(card: Card) -> Ops:
    """The table of operations on a card; what has no kernel stays plain."""
    return replace(PLAIN, **norm_pairs(card))
