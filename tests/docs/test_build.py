"""python -m docs.site says what it is doing: bars and Sphinx's own progress on a terminal, few lines in a log."""

import pytest

from docs.site import __main__ as command
from docs.site import experiments, museum, operations, walk
from docs.site.places import FILES
from npformer.lab.museum.bugs import BUGS


@pytest.fixture
def built(monkeypatch, capsys):
    """built(on_a_terminal): what Sphinx was told, and what was printed; nothing is written."""
    sphinx = pytest.importorskip("sphinx.cmd.build", reason="the extra docs brings Sphinx")
    told = []

    def run(on_a_terminal):
        told.clear()
        monkeypatch.setattr("sys.argv", ["docs.site"])
        monkeypatch.setattr(command, "is_terminal", lambda stream: on_a_terminal)
        monkeypatch.setattr("docs.site.assemble.write_all", lambda: None)
        monkeypatch.setattr(sphinx, "build_main", lambda words: told.extend(words))
        assert command.main() == 0
        return told, capsys.readouterr().out.splitlines()

    return run


def test_sphinx_shows_its_progress_on_a_terminal_alone(built):
    assert "-q" not in built(on_a_terminal=True)[0]
    words, printed = built(on_a_terminal=False)
    assert "-q" in words
    assert "Sphinx makes pages of them" in printed[0]
    assert printed[-1].endswith("index.html")
    assert len(printed) == 2


@pytest.mark.parametrize(("part", "expected"), [(operations, FILES), (museum, [bug.id for bug in BUGS])])
def test_a_bar_names_the_page_at_hand(part, expected, monkeypatch):
    named = []

    def watched(items, what, name):
        for item in items:
            named.append(name(item))
            yield item

    for function in ("page", "index", "gallery", "room", "write"):
        monkeypatch.setattr(part, function, lambda *_: "", raising=False)
    monkeypatch.setattr(part, "watched", watched)
    part.write_all()
    assert named == list(expected)


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


def test_the_walk_lists_the_operations_of_its_trace():
    rows = walk.page().partition("|---|---|\n")[2].splitlines()
    assert rows[0] == "| `src_embedding` | [embedding](operations/embedding.md) |"
    assert rows[-1] == "| `loss` | [cross entropy](operations/cross_entropy.md) |"
