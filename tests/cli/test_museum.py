"""npformer museum: the list with what finds each bug, and one bug with its picture."""

import re

import pytest

from npformer.lab.museum.bugs import BUGS
from npformer.lab.museum.stored import STEPS


def test_list(cli):
    done = cli("museum").quiet()
    assert all(f"  {one.id} " in done.out for one in BUGS)
    done.says("found by training steps", f"{len(BUGS)} bugs. Look at one: npformer museum show ID")
    assert done.width <= 80
    rows = cli("museum --json --only NOAM").document["bugs"]
    assert [(row["id"], row["found_by"]) for row in rows] == [
        ("noam-max", "training steps"), ("noam-per-tensor", "training steps"),
    ]  # fmt: skip


def test_show_tells_and_draws_what_is_stored(cli, tmp_path):
    picture = tmp_path / "m.svg"
    done = cli("museum show clip-squared --picture", str(picture)).quiet()
    assert picture.read_bytes().startswith(b"<svg ")
    done.says("right   n = √Σ g²", "wrong   n = Σ g²", "- return xp.sqrt(", "+ return xp.asarray(")
    done.says("Found by training steps: src_embedding.weight after", f"after {STEPS} steps", f"picture {picture}")
    document = cli("museum show clip-squared --json").document
    assert (document["found_by"], len(document["training"]["wrong"]["seeds"])) == ("training steps", 3)


def test_show_names_the_lesson_that_has_the_bug(cli):
    assert "\nnpformer lessons 7 has this bug.\n" in cli("museum show causal-off").out
    assert "npformer lessons" not in cli("museum show clip-squared").out


def test_show_without_a_picture_says_so(cli, tmp_path):
    document = cli("museum show test-gamma-one --json").fine().document
    assert (document["picture"], document["training"]) == (None, None)
    assert "PROVES NOTHING" in document["says"]
    text = " ".join(cli("museum show test-gamma-one").out.split())
    assert f"There is no picture of this bug. {document['instead']}" in text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("show", "the following arguments are required: id"),
        ("show softmax-over-bach", "did you mean softmax-over-batch"),
        ("--only noam show noam-max", "--only: expected no show beside it"),
        ("--only nonsense", "--only: expected a part of an id, category or title"),
        ("show noam-max --picture x.txt", "expected a file name ending in .svg"),
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
