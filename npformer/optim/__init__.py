"""Optimisers over the arena: Adam and AdamW, learning rate schedules, gradient clipping."""

from npformer.optim.adam import Adam, AdamW, Rates
from npformer.optim.clip import clip_by_global_norm, global_norm
from npformer.optim.schedules import Constant, Noam, Schedule, WarmupCosine

__all__ = [
    "Adam",
    "AdamW",
    "Constant",
    "Noam",
    "Rates",
    "Schedule",
    "WarmupCosine",
    "clip_by_global_norm",
    "global_norm",
]
