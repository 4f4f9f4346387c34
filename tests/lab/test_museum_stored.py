"""What is stored of the bugs: complete, and of the bugs and of the code as they are now."""

from dataclasses import replace
from pathlib import Path

import pytest

import npformer
from npformer.errors import DataError
from npformer.lab.museum.bugs import BUGS, bug
from npformer.lab.museum.stored import STEPS, stored

PACKAGE = Path(npformer.__file__).parent
SOURCES = [
    path.read_text(encoding="utf-8") for part in ("functional", "layers") for path in (PACKAGE / part).glob("*.py")
]
STALE = "run python -m benchmarks.museum"


def test_every_bug_is_stored_as_it_is_now():
    for one in BUGS:
        kept = stored(one)
        assert kept.found_by, one.id
        assert kept.says, one.id
        assert (kept.comparison is None) == (one.run is None)
        for course in kept.comparison or ():
            assert (len(course.losses), len(course.ends)) == (STEPS, 3), STALE
        assert kept.comparison is None or kept.comparison.right.ends[0].loss < 1.5, "the run without a bug learns"


@pytest.mark.parametrize("change", [{"edits": bug("noam-max").edits}, {"run": {"dropout": 0.5}}])
def test_a_bug_that_has_changed_is_not_shown(change):
    with pytest.raises(DataError, match="causal-off: nothing is stored of this bug as it is now"):
        stored(replace(bug("causal-off"), **change))
    assert stored(replace(bug("causal-off"), story="Told better.")) == stored(bug("causal-off"))
