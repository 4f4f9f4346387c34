"""What tests of pictures share."""

from matplotlib.axis import Axis
from matplotlib.text import Text


def texts(place):
    """The texts of a figure or of one of its axes."""
    return [text.get_text() for text in place.texts if text.get_text()]


def expect_inside(figure):
    """Fails, and says which, if a text of the figure, once drawn, reaches over an edge."""
    figure.canvas.draw()
    width, height = figure.canvas.get_width_height()
    for artist in (one for place in (figure, *figure.axes) for one in place.get_children()):
        if isinstance(artist, Axis) or (isinstance(artist, Text) and artist.get_text()):
            box = artist.get_tightbbox()  # of an axis: the names of its ticks, and its own
            assert box is None or 0 <= box.x0 <= box.x1 <= width, artist
            assert box is None or 0 <= box.y0 <= box.y1 <= height, artist
