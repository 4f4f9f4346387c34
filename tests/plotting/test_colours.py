"""The ramp of the attention maps is fair: equal differences of weight look equally large."""

import numpy as np
from matplotlib.colors import to_rgb

from npformer.plotting import colours


def cie_lightness(rgb):
    """L* of CIELAB (0 black, 100 white): another measure than the one the ramp is built with."""
    values = np.asarray(rgb, dtype=np.float64)
    linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
    y = linear @ np.array([0.2126, 0.7152, 0.0722])
    return np.where(y > 216 / 24389, 116 * np.cbrt(y) - 16, y * 24389 / 27)


def test_lightness_falls_from_near_white_to_dark_in_even_steps():
    ramp = colours.weight_ramp()(np.linspace(0, 1, 11))[:, :3]
    lightness = cie_lightness(ramp)
    steps = -np.diff(lightness)
    assert lightness[0] > 95
    assert lightness[-1] < 20
    assert steps.min() > 0.75 * steps.mean()
    assert steps.max() < 1.25 * steps.mean()


def test_hidden_keys_have_a_colour_that_no_weight_has():
    ramp = colours.weight_ramp()(np.linspace(0, 1, 256))[:, :3]
    hidden = np.array(to_rgb(colours.HIDDEN))
    assert np.abs(ramp - hidden).max(axis=1).min() > 0.04
    assert (ramp[:, 2] >= ramp[:, 0] - 0.01).all()  # the ramp is cool throughout,
    assert hidden[0] > hidden[2] + 0.04  # hidden keys are warm


def test_lines_of_one_panel_differ_in_lightness_too():
    for one, other in [(colours.TRAINING, colours.HELD_OUT), (colours.TOKENS, colours.SEQUENCES)]:
        assert abs(cie_lightness(to_rgb(one)) - cie_lightness(to_rgb(other))) > 5
