"""The colours of all pictures, chosen for colour-blind readers and for grey-scale printers.

Lines take their colours from Okabe & Ito's set (exact match, drawn as text too, from Tol's, which is
darker). The ramp of the attention maps is made here: its lightness falls in equal steps in Oklab, so equal
differences of weight look equally large. Oklab's matrices are those of its definition:
https://bottosson.github.io/posts/oklab/
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from matplotlib.colors import ListedColormap

TRAINING = "#0072B2"
HELD_OUT = "#D55E00"
TOKENS = "#009E73"
SEQUENCES = "#882255"
RATE = "#555555"
WARNING = "#B3261E"

INK = "#1F2328"
FAINT_INK = "#656D76"
RULE = "#D0D7DE"

#: A weight of exactly zero: a warm colour, distinct from the cool ramp.
HIDDEN = "#EAE4D9"

_OKLAB_TO_LMS = np.array(
    [
        [1.0, 0.3963377774, 0.2158037573],
        [1.0, -0.1055613458, -0.0638541728],
        [1.0, -0.0894841775, -1.2914855480],
    ]
)
_LMS_TO_RGB = np.array(
    [
        [4.0767416621, -3.3077115913, 0.2309699292],
        [-1.2684380046, 2.6097574011, -0.3413193965],
        [-0.0041960863, -0.7034186147, 1.7076147010],
    ]
)


def _srgb(oklab: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Colours (n, 3) of Oklab as gamma-encoded sRGB (n, 3), clipped to the range of a screen."""
    linear = np.clip((oklab @ _OKLAB_TO_LMS.T) ** 3 @ _LMS_TO_RGB.T, 0.0, 1.0)
    bright = 1.055 * linear ** (1 / 2.4) - 0.055
    return np.asarray(np.where(linear <= 0.0031308, 12.92 * linear, bright))


def weight_ramp() -> ListedColormap:
    """The colour map of attention weights: from near white at 0 to deep indigo at 1."""
    t = np.linspace(0.0, 1.0, 256)
    lightness = 0.985 - 0.725 * t
    chroma = 0.13 * np.sin(0.8 * np.pi * t)  # none at white, little at dark
    hue = np.radians(230.0 + 45.0 * t)  # from sky to indigo
    oklab = np.stack([lightness, chroma * np.cos(hue), chroma * np.sin(hue)], axis=1)
    return ListedColormap(_srgb(oklab), name="attention_weight")
