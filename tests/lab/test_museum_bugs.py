"""The bugs as data: complete, readable, and shown as wide as the terminal."""

import math
from collections import Counter

import pytest

from npformer.errors import ConfigError
from npformer.io import terminal
from npformer.lab.museum import text
from npformer.lab.museum.bugs import BUGS, bug
from npformer.lab.museum.stored import ABOVE, AMONG, BELOW, Comparison, End, TrainingCourse, stored


def test_no_bug_is_there_twice():
    assert max(Counter(one.id for one in BUGS).values()) == 1
    assert max(Counter(one.edits for one in BUGS if not one.test).values()) == 1


@pytest.mark.parametrize("columns", [60, 80])
@pytest.mark.parametrize("one", BUGS, ids=lambda one: one.id)
def test_everything_fits_the_terminal(one, columns, monkeypatch):
    for module in (text, terminal):
        monkeypatch.setattr(module, "columns", lambda: columns)
    exhibit = stored(one)
    shown = [text.listing([one], {one.id: exhibit}), text.label(one), text.findings(one, exhibit)]
    assert all(len(line) <= columns for part in shown for line in part.splitlines())
    assert " ".join(shown[1].partition("  right ")[0].split()).endswith(f" {one.id} · {one.category}")


def test_an_id_that_is_not_there_names_the_nearest():
    assert bug("causal-off").title
    with pytest.raises(ConfigError, match=r"expected an id .* got 'causal-of'; did you mean causal-off"):
        bug("causal-of")


RIGHT = ((1.0, 0.5), (2.0, 0.7), (1.5, 0.6))


@pytest.mark.parametrize(
    ("wrong", "place", "said"),
    [
        (((3.1, 0.6), (4.0, 0.6), (3.5, 0.6)), ABOVE, "above each without it. The words do not show it, and"),
        (((0.1, 0.6), (0.2, 0.6), (0.9, 0.6)), BELOW, "below each without it. The words do not show it, and"),
        (((0.1, 0.6), (2.9, 0.6), (3.0, 0.5)), AMONG, "Runs with the bug end among those without it, so"),
        (((1.0, 0.4), (2.0, 0.3), (1.5, 0.2)), AMONG, "each run with it misses more than each without it."),
        (((1.0, 0.8), (2.0, 0.9), (1.5, 0.75)), AMONG, "each run with it misses fewer than each without it."),
        (((math.nan, math.nan),) * 3, ABOVE, "Each loss with the bug ends above each without it."),
    ],
)
def test_what_training_tells_is_judged_by_all_seeds(wrong, place, said):
    found = Comparison(*(TrainingCourse((2.0, 1.0), tuple(End(*end) for end in ends)) for ends in (RIGHT, wrong)))
    assert found.place == place
    assert said in found.verdict
    assert str(found.right) == "loss 1.000 to 2.000, 50 to 70 % of held-out words right, over 3 seeds"
