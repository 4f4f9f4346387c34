"""Pictures of a run: its curves, and where its attention heads look."""

from npformer.plotting.attention import draw_attention
from npformer.plotting.curves import draw_curves

__all__ = ["draw_attention", "draw_curves"]
