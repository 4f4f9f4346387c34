"""Pictures: training curves, attention heads, the V of a gradient check, and others."""

from npformer.plotting.attention import draw_attention
from npformer.plotting.curves import draw_curves
from npformer.plotting.sweep import draw_sweep

__all__ = ["draw_attention", "draw_curves", "draw_sweep"]
