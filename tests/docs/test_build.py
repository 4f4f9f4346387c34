"""What pages of the site are made of: an experiment's formulas, the museum's rooms, the walk's operations."""

from docs.site import experiments, museum
from npformer.lab.museum.bugs import BUGS


def test_an_experiment_keeps_the_lines_of_its_formulas():
    page = experiments.page("norm_order")
    assert "```text\npost-LN   x ← LN(x + f(x))        the gradient" in page
    assert "/files/examples/experiments/norm_order.py.md" in page


def test_each_bug_hangs_in_one_room():
    rooms = museum.rooms()
    assert [one for _, bugs in rooms for one in bugs] == list(BUGS)
    names = [museum.slug(category) for category, _ in rooms]
    assert len({*names, *(one.id for one in BUGS)}) == len(names) + len(BUGS)
    for category, _ in rooms:
        assert f'href="{museum.slug(category)}.html"' in museum.gallery()
