"""npformer museum: the list, the table of detections, one bug with its picture, and exit 1 for a survivor."""

import re

import pytest

from npformer.cli import museum
from npformer.lab.museum import demonstration
from npformer.lab.museum.bugs import BUGS

#: Enough checks for the bugs shown here; tests/lab/test_museum_detections.py runs all checks on all bugs.
CHECKS = ("clipping", "a step by hand", "schedules")


@pytest.fixture(autouse=True)
def short(quick_museum):
    quick_museum(CHECKS, [one.id for one in BUGS])


def test_list(cli):
    done = cli("museum list").quiet()
    assert all(f"  {one.id} " in done.out for one in BUGS)
    assert f"{len(BUGS)} bugs" in done.out
    rows = cli("museum list --json --only NOAM").document["bugs"]
    assert [row["id"] for row in rows] == ["noam-max", "noam-per-tensor"]


def test_the_table(cli):
    done = cli("museum --only noam").quiet()
    done.says("OPTIMISER", "2 of 2 bugs detected")
    lines = done.lines
    assert done.width <= 80
    assert next(line for line in lines if line.split()[:1] == ["noam-max"]).split()[1:] == ["schedules"]
    alone = lines[lines.index(next(line for line in lines if line.startswith("WITHOUT THIS CHECK"))) :]
    assert any(line.split() == ["schedules", "noam-max"] for line in alone)


def test_a_survivor_is_exit_1(cli):
    done = cli("museum --only noam --without schedules")
    assert done.code == 1
    done.says("1 of 2 bugs detected without schedules", "SURVIVES: noam-max")
    document = cli("museum --only noam --without schedules --json").document
    assert (document["ok"], document["survivors"]) == (False, ["noam-max"])
    assert document["bugs"][0]["detected_by"].keys() == {"schedules"}


SHOWN = ("right   n = √Σ g²", "wrong   n = Σ g²", "- return xp.sqrt(", "+ return xp.asarray(", "clipping: the norm is")


def test_show_tells_and_draws_what_is_stored(cli, tmp_path, monkeypatch):
    """Nothing is run or trained."""
    monkeypatch.setattr(museum, "made", lambda one: pytest.fail("made anew"))
    picture = tmp_path / "m.svg"
    done = cli("museum show clip-squared --picture", str(picture)).quiet()
    assert picture.read_bytes().startswith(b"<svg ")
    done.says(*SHOWN, f"after {demonstration.STEPS} steps", f"picture {picture}")
    document = cli("museum show clip-squared --json").document
    assert document["stored"] is True
    assert len(document["detected_by"]) >= 2


def test_show_names_the_lesson_that_has_the_bug(cli):
    assert "\nnpformer lessons 7 has this bug.\n" in cli("museum show causal-off").out
    assert "npformer lessons" not in cli("museum show clip-squared").out


def test_show_fresh_runs_the_checks_and_trains(cli, tmp_path):
    done = cli("museum show clip-squared --picture m.svg --fresh").quiet()
    done.says(*SHOWN, "Detected by 2 checks", "after 3 steps", "picture m.svg")
    assert (tmp_path / "m.svg").read_bytes().startswith(b"<svg ")
    assert cli("museum show clip-squared --json --fresh").document["stored"] is False


def test_show_makes_what_is_not_stored_and_says_so(cli, monkeypatch):
    monkeypatch.setattr(museum, "stored", lambda one: None)
    done = cli("museum show clip-squared")
    assert "clip-squared: nothing is stored of this bug as it is now" in done.err
    assert "after 3 steps" in done.out


def test_show_without_a_picture_says_so(cli, tmp_path):
    document = cli("museum show test-gamma-one --json").fine().document
    assert (document["picture"], document["training"]) == (None, None)
    assert document["instead"]
    assert "PROVES NOTHING" in document["diagnosis"]
    text = " ".join(cli("museum show test-gamma-one").out.split())
    assert f"There is no picture of this bug. {document['instead']}" in text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("show", "the following arguments are required: id"),
        ("show softmax-over-bach", "did you mean softmax-over-batch"),
        ("list softmax-over-batch", "unknown argument 'softmax-over-batch'"),
        ("--picture=x.svg", "unknown argument '--picture=x.svg'"),
        ("--without schedules list", "--without: expected no list beside it"),
        ("--only noam show noam-max", "--only: expected no show beside it"),
        ("--only nonsense", "--only: expected a part of an id, category or title"),
        ("--without schedule", "expected the name of a check, got 'schedule'; the nearest: schedules"),
        ("show noam-max --picture x.txt", "expected a file name ending in .svg"),
        ("--sample=3", "unknown argument '--sample=3'"),
        ("mutants --only softmax", "unknown argument '--only'"),
        ("mutants --sample 0", "--sample: expected an integer >= 1, got 0"),
    ],
)
def test_bad_input_is_exit_2(cli, arguments, message):
    cli(f"museum {arguments}").refused(message)


def test_generic_mistakes(cli):
    done = cli("museum mutants --sample 12 --seed 3").fine()
    assert re.search(r"^all +\d+ +\d+ +0 +0$", done.out, re.M)
    assert "12 mutants in" in done.out
    text = " ".join(done.out.split())
    assert "killed: its gradients have the right shapes, and the check calls one of them wrong" in text
    assert re.search(r"One of the killed: [\w ]+: `.*` became `.*` \(\w+, line \d+\); found in \w+", text)
    assert done.width <= 80
