"""What a check found, as a table for people and as JSON for machines."""

import json
import math
from dataclasses import asdict, replace

import numpy as np
import pytest

from npformer.check import Report, Row
from npformer.check.report import KINK, NOTHING, RIGHT, UNCLEAR, WRONG
from npformer.errors import GradientError

GOOD = Row("norm.gamma", (4, 2), 8, 1e-16, 2e-12, (1, 0), 0.5, 0.5, 2.0, RIGHT)
BAD = replace(GOOD, tensor="weight", scaled_error=0.25, analytic=1.0, verdict=WRONG, note="look here")


def test_only_right_is_ok():
    assert [v for v in (RIGHT, WRONG, KINK, UNCLEAR, NOTHING) if replace(GOOD, verdict=v).ok] == [RIGHT]
    assert Report("check", (GOOD, GOOD)).ok
    assert not Report("check", (GOOD, BAD)).ok
    assert not Report("check", ()).ok


@pytest.mark.parametrize(
    ("analytic", "numeric", "scale", "ratio"),
    [
        (1.0, 0.5, 1.0, 2.0),
        (-1.0, 0.5, 1.0, -2.0),
        (0.0, 0.5, 1.0, 0.0),
        (0.5, 0.0, 1.0, math.inf),
        (-0.5, 0.0, 1.0, -math.inf),
        (1e-13, 2e-14, 1.0, math.nan),  # both are noise
        (1e-13, 2e-13, 1e-12, 0.5),
    ],
)
def test_the_ratio(analytic, numeric, scale, ratio):
    row = replace(GOOD, analytic=analytic, numeric=numeric, scale=scale)
    assert row.ratio == pytest.approx(ratio, nan_ok=True)


def test_the_worst_row_is_one_that_is_not_right():
    small = replace(BAD, scaled_error=1e-20)
    assert Report("check", (GOOD, small)).worst is small
    assert Report("check", (small, BAD)).worst is BAD
    assert Report("check", (replace(GOOD, scaled_error=1e-15), GOOD)).worst.scaled_error == 1e-15


def test_the_table_shows_every_number_under_its_heading():
    header, good, bad, note = str(Report("check", (GOOD, BAD))).splitlines()
    assert header.split() == ["tensor", "shape", "elem", "error", "worst", "analytic", "numeric", "ratio", "verdict"]
    assert good.split() == ["norm.gamma", "4×2", "8", "1.0e-16", "1,0", "5.00e-01", "5.00e-01", "1", "right"]
    assert bad.split()[-3:] == ["5.00e-01", "2", "WRONG"]
    assert note.strip() == "(look here)"
    for heading, cell in (("shape", "4×2"), ("error", "1.0e-16"), ("analytic", "5.00e-01")):
        assert header.index(heading) + len(heading) == good.index(cell, 10) + len(cell.rstrip())


def test_a_long_name_has_a_line_of_its_own_and_a_scalar_is_called_so():
    name = "decoder.layers.0.self_attention.query.weight"
    row = replace(GOOD, tensor=name, shape=(), worst_index=(), analytic=math.nan)
    first, second = str(Report("check", (row,))).splitlines()[1:]
    assert first == name
    assert second.split()[0] == "scalar"
    assert "–" in second.split()


def test_no_line_is_longer_than_80_columns():
    row = replace(
        BAD, shape=(2, 2, 5, 4), worst_index=(1, 1, 4, 3), elements=8000, analytic=-1.0, diagnosis=30 * "why "
    )
    report = Report("check", (GOOD, row, replace(row, tensor="another.long.name.of.a.tensor")))
    assert max(map(len, str(report).splitlines())) <= 80
    assert "weight, another.long.name.of.a.tensor: why why" in str(report)


def test_failure_raises_with_the_name_and_the_table():
    Report("check", (GOOD,)).raise_if_failed()
    report = Report("my layer", (GOOD, BAD))
    with pytest.raises(GradientError) as caught:
        report.raise_if_failed()
    assert str(caught.value) == f"my layer: a gradient is not right\n{report}"
    assert isinstance(caught.value, AssertionError)  # so that a test that uses it fails as a test does


def strictly(text):
    """Parse JSON; NaN and Infinity, which are none, raise."""

    def refuse(constant):
        raise ValueError(constant)

    return json.loads(text, parse_constant=refuse)


def test_json_holds_everything_and_is_json_even_with_nan():
    odd = replace(BAD, scaled_error=math.nan, central_error=math.inf, analytic=np.nan, scale=-math.inf)
    document = strictly(replace(SAID, rows=(GOOD, odd)).to_json())
    assert document.items() >= {"name": "check", "ok": False}.items()
    assert (document["problems"], document["notes"]) == ([*SAID.problems], [*SAID.notes])
    good, bad = document["tensors"]
    assert good == asdict(GOOD) | {"shape": [4, 2], "worst_index": [1, 0], "ratio": 1.0}
    assert [bad[key] for key in ("scaled_error", "central_error", "analytic", "scale", "ratio")] == [None] * 5
    assert bad["note"] == "look here"


LARGE = replace(BAD, region="[512:768, :, 3]", unjudged=4, by_direction=True, upstream=2)
SAID = Report("check", (GOOD, LARGE), problems=("backward changes dy",), notes=("passed on unchecked: p (float 0.5)",))


def test_a_problem_is_a_failure_though_every_row_is_right():
    report = replace(SAID, rows=(GOOD,))
    assert not report.ok
    with pytest.raises(GradientError, match="PROBLEM: backward changes dy"):
        report.raise_if_failed()
    assert replace(report, problems=()).ok


def test_problems_and_notes_stand_below_the_table_and_are_wrapped():
    lines = str(SAID).splitlines()
    assert lines[-2:] == ["PROBLEM: backward changes dy", "note: passed on unchecked: p (float 0.5)"]
    long = Report("check", (GOOD,), problems=(30 * "words ",), notes=(30 * "words ",))
    below = str(long).splitlines()[2:]
    assert max(map(len, below)) <= 80
    assert [line.startswith("    ") for line in below].count(False) == 2


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (LARGE, "(look here; wrong in [512:768, :, 3])"),
        (replace(LARGE, region="everywhere", note=""), "(wrong everywhere)"),
        (replace(GOOD, unjudged=3), "(3 of 8 entries too small beside the largest to be judged)"),
    ],
)
def test_a_row_says_where_it_is_wrong_and_what_was_not_judged(row, text):
    assert [line.strip() for line in row.lines()[1:]] == [text]


def test_a_prompt_shows_the_table():
    report = Report("check", (GOOD, BAD))
    assert repr(report) == str(report)
