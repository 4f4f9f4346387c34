"""Kernels for NVIDIA GPUs (.cu) and what calls them, for any card that offers ``Card``."""

from __future__ import annotations

from npformer.backend.cuda.card import PRECISIONS, Card
from npformer.backend.ops import PLAIN, Ops, with_kernels

__all__ = ["PRECISIONS", "Card", "cuda_ops"]


def cuda_ops(card: Card) -> Ops:
    """The table of operations on a card; what has no kernel stays plain."""
    return with_kernels(PLAIN, __name__, card)
