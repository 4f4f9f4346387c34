"""What tests of pictures share."""

import pytest
from matplotlib.figure import Figure


@pytest.fixture
def stays_inside():
    """stays_inside(figure): whether no text of it, once drawn, reaches over an edge; else it says which."""

    def check(figure: Figure):
        figure.canvas.draw()
        width, height = figure.canvas.get_width_height()
        for text in figure.findobj(match=lambda artist: hasattr(artist, "get_text") and artist.get_text()):
            box = text.get_window_extent()
            assert 0 <= box.x0 <= box.x1 <= width, text
            assert 0 <= box.y0 <= box.y1 <= height, text
        return True

    return check
