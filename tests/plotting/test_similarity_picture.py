"""Maps of similarity: one for each matrix, groups named once and framed."""

import numpy as np

from npformer.plotting.similarity import similarity_figure

GROUPS = ["Jan", "Jan", "Jan", "Feb"]


def test_a_map_for_each_matrix_and_a_name_for_each_group():
    maps = [("before", np.eye(4)), ("after", np.ones((4, 4)) - 2 * np.eye(4))]
    figure = similarity_figure(maps, GROUPS, "Heading", "a note")
    before, after, _ = figure.axes
    assert [before.get_title(loc="left"), after.get_title(loc="left")] == ["before", "after"]
    assert [label.get_text() for label in before.get_yticklabels()] == ["Jan", "Feb"]
    assert before.get_yticks().tolist() == [1.0, 3.0]
    assert [line.get_ydata()[0] for line in before.lines if line.get_xdata()[0] == 0] == [2.5]
    assert after.images[0].get_array().min() == 0, "what points away is shown as 0"


def test_nothing_overlaps_the_colour_bar():
    figure = similarity_figure([("a", np.eye(4)), ("b", np.eye(4))], GROUPS, "t", "note")
    figure.canvas.draw()
    box = figure.axes[-1].get_tightbbox()
    assert all(not box.overlaps(axes.get_tightbbox()) for axes in figure.axes[:-1])
