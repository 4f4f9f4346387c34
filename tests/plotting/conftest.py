"""What tests of pictures share."""

import pytest
from matplotlib.axis import Axis
from matplotlib.text import Text


@pytest.fixture
def stays_inside():
    """stays_inside(figure): whether no text of it, once drawn, reaches over an edge; else it says which."""

    def check(figure):
        figure.canvas.draw()
        width, height = figure.canvas.get_width_height()
        for artist in (one for place in (figure, *figure.axes) for one in place.get_children()):
            if isinstance(artist, Axis) or (isinstance(artist, Text) and artist.get_text()):
                box = artist.get_tightbbox()  # of an axis: the names of its ticks, and its own
                assert box is None or 0 <= box.x0 <= box.x1 <= width, artist
                assert box is None or 0 <= box.y0 <= box.y1 <= height, artist
        return True

    return check
