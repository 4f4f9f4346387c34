"""Pictures: training curves, attention heads, the V of a gradient check, and others."""

from npformer.see.plot.attention import draw_attention
from npformer.see.plot.charts import draw_curves, draw_sweep

__all__ = ["draw_attention", "draw_curves", "draw_sweep"]
