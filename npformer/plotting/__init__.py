"""Pictures: training curves, attention heads, the V of a gradient check, the profile of a step, and others."""

from npformer.plotting.attention import draw_attention
from npformer.plotting.curves import draw_curves
from npformer.plotting.profile import draw_profile
from npformer.plotting.sweep import draw_sweep

__all__ = ["draw_attention", "draw_curves", "draw_profile", "draw_sweep"]
