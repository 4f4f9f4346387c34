"""npformer grade: exit codes, hints, answers, templates, the list and the progress of a learner."""

import json
import re
from pathlib import Path

import pytest

from npformer.lab.grader import EXERCISES, find
from npformer.lab.grader.progress import NAME
from tests.lab.learner import answered


@pytest.fixture
def wrong(tmp_path):
    path = answered("relu", tmp_path).rename(tmp_path / "mine.py")
    text = path.read_text().replace("dy * cache", "dy")
    path.write_text(f"import numpy as np\nfrom numpy import exp\n{text}")
    return path


def test_a_right_answer(cli, tmp_path):
    done = cli("grade", answered("relu", tmp_path)).quiet()
    assert done.out.startswith("relu: right.\n")
    assert f"You know now: {find('relu').known}" in " ".join(done.out.split())
    assert done.lines[-1] == "Next: npformer grade --template gelu"
    entry = json.loads((tmp_path / NAME).read_text())["exercises"]["relu"]
    assert entry == {"attempts": 1, "hint": 0, "solved": True}


def test_the_next_step_is_the_lessons(cli, tmp_path):
    done = cli("grade", answered("linear", tmp_path)).quiet()
    assert done.lines[-1] == "Next in lesson 1: npformer museum show linear-bias-mean"


def test_a_wrong_answer_and_the_generosity_of_hints(cli, wrong):
    texts = [cli(f"grade mine.py --hint {level}") for level in (1, 2, 3)]
    assert [done.code for done in texts] == [1, 1, 1]
    assert "does y_i move?" in texts[0].out
    assert "the gradient is 0" in texts[1].out
    assert "np.where(x > 0, dy, 0.0)" in texts[2].out
    assert not any("np.where(" in done.out for done in texts[:2])
    assert "More: npformer grade mine.py --hint 2" in texts[0].out
    assert "The derivation: npformer grade mine.py --answer" in texts[2].out


def test_the_answer_is_shown_only_on_request(cli, wrong):
    done = cli("grade mine.py --answer").fine()
    done.says("The forward's input sets the gate", "return np.where(is_open, dy, 0.0)")
    assert cli("grade --answer --exercise relu").out == done.out


def test_json(cli, wrong):
    done = cli("grade mine.py --json --hint 3")
    (exercise,) = done.document["exercises"]
    (fault,) = exercise["faults"]
    assert (done.code, done.document["ok"], exercise["ok"], fault["gradients"]) == (1, False, False, ["dx"])
    assert fault["cause"] == "gate left out"
    assert len(fault["hints"]) == 3
    assert [f["name"] for f in exercise["findings"] if not f["ok"]] == ["dx"]
    (fault,) = cli("grade mine.py --json").document["exercises"][0]["faults"]
    assert (fault["cause"], len(fault["hints"])) == (None, 1), "a cause is as good as the third hint"


def test_several_exercises_in_one_file(cli, tmp_path, wrong):
    texts = [path.read_text() for path in (answered("dropout", tmp_path), wrong)]
    (tmp_path / "both.py").write_text("".join(texts))
    done = cli("grade both.py")
    assert done.code == 1
    done.says("relu: not yet; dx is not right.", "dropout: right.")
    assert re.search(r"\n1 of 2 exercises are right \(\d+ s\)\n$", done.out)
    cli("grade both.py --exercise dropout").fine()


def test_a_template_is_written_once(cli, tmp_path):
    done = cli("grade --template layer_norm")
    assert (done.code, done.out.split()[0]) == (0, "layer_norm.py")
    before = (tmp_path / "layer_norm.py").read_text()
    cli("grade --template layer_norm").refused("layer_norm.py", "nothing is ever overwritten")
    assert (tmp_path / "layer_norm.py").read_text() == before
    cli("grade other.py --template layer_norm").fine()
    assert (tmp_path / "other.py").read_text() == before
    assert cli("grade layer_norm.py").code == 1
    assert not cli("grade --list --json").document["exercises"][7]["attempts"], "not begun is no attempt"


def test_templates_with_parts_run_without_the_grader(shell, tmp_path):
    done = shell("grade parts.py --template parts")
    assert (done.code, done.out) == (0, "parts.py is written; exercises import it\n")
    assert shell("grade", answered("decoder_layer", tmp_path)).out.startswith("decoder_layer: right.")


def test_the_list_shows_order_and_progress(cli, tmp_path, wrong):
    cli("grade", answered("linear", tmp_path))
    cli("grade mine.py")
    listed = cli("grade --list")
    lines = listed.lines
    assert [line.split()[2] for line in lines[: len(EXERCISES)]] == [exercise.name for exercise in EXERCISES]
    assert [line.split()[0] for line in lines[:3]] == ["✓", "…", "·"]
    assert (lines[0].endswith(" done"), lines[1].endswith(" in progress")) == (True, True)
    assert "in progress: relu, mine.py: graded 1 time" in lines
    assert lines[-1] == f"1 of {len(EXERCISES)} done; next: npformer grade mine.py"
    assert listed.width <= 80


def test_the_list_sees_what_is_begun_in_this_folder(cli, tmp_path):
    """A template counts, filled in or not; parts.py, which holds the answers, and broken files do not."""
    cli("grade --template softmax")
    cli("grade gelu2.py --template gelu")
    (tmp_path / "gelu2.py").write_text(
        (tmp_path / "gelu2.py").read_text().replace("raise NotImpl", "return 0  # NotImpl")
    )
    cli("grade parts.py --template parts")
    source = "import npformer\ndef linear_forward(x): return x, x\ndef linear_backward(dy, x): return dy"
    (tmp_path / "taste.py").write_text(source)  # a pair of the reader's own, checked by npf.gradcheck
    (tmp_path / "relu.py").write_text("def relu_forward(x:\ndef relu_backward")
    (tmp_path / "folder_backward.py").mkdir()
    rows = {row["name"]: row for row in cli("grade --list --json").document["exercises"]}
    states = {name: (row["state"], row["file"]) for name, row in rows.items() if row["state"] != "not begun"}
    assert states == {"softmax": ("in progress", "softmax.py"), "gelu": ("in progress", "gelu2.py")}
    assert set(rows["softmax"]) == {"name", "title", "state", "file", "attempts", "hint", "solved"}
    lines = cli("grade --list").lines
    assert lines[-4:] == [
        "in progress: gelu, gelu2.py: not graded yet",
        "in progress: softmax, softmax.py: its backward is still empty",
        "",
        f"0 of {len(EXERCISES)} done; next: npformer grade gelu2.py",
    ]


def test_what_was_graded_elsewhere_is_in_progress_without_a_file(cli, wrong):
    cli("grade mine.py")
    wrong.unlink()
    lines = cli("grade --list").lines
    assert "in progress: relu, graded 1 time; no file of it here" in lines
    assert lines[-1].endswith("next: npformer grade --template linear")


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        '{"format": "x"}',
        '{"format": "npformer exercises 1", "exercises": {"relu": 3}}',
        "[" * 100_000,
        '{"format": "npformer exercises 1", "exercises": {}, "lessons": {"1": 3}}',
    ],
    ids=["a list", "another format", "a bad entry", "deep", "a bad lesson"],
)
def test_a_corrupt_progress_file_is_not_changed(cli, tmp_path, text):
    (tmp_path / NAME).write_text(text)
    cli("grade", answered("relu", tmp_path)).fine().warns(f"{NAME}: left as it is")
    cli("grade --list").fine()
    assert (tmp_path / NAME).read_text() == text


def test_progress_can_be_switched_off(cli, tmp_path):
    cli("grade", answered("relu", tmp_path), "--no-progress").fine()
    assert [path.name for path in tmp_path.iterdir()] == ["relu.py"]


def test_bad_input(cli, tmp_path):
    (tmp_path / "latin.py").write_bytes(b"# caf\xe9\n")
    cli("grade").refused("expected a FILE", "--list")
    cli("grade nothing.py").refused("nothing.py: no such file", "--template")
    cli("grade latin.py").refused("UTF-8")
    cli("grade latin.py --list --answer").refused("one of --list, --template, --answer")
    cli("grade --answer").refused("expected a FILE or --exercise NAME")
    cli("grade latin.py --time-limit 0").refused("--time-limit")
    assert cli("grade latin.py --hint 4").code == 2
    assert not (tmp_path / NAME).exists()


def test_a_file_is_named_as_a_shell_reads_it(cli):
    written = cli("grade --template gelu", "my gelu.py").quiet()
    assert written.lines == ["my gelu.py is written; fill it in, then: npformer grade 'my gelu.py'"]
    assert cli("grade --list").lines[-1].endswith("next: npformer grade 'my gelu.py'")
    text = Path("my gelu.py").read_text().replace("raise NotImplementedError", "return dy + 1 #")
    Path("my gelu.py").write_text(text)
    cli("grade", "my gelu.py").says("npformer grade 'my gelu.py' --hint 2")
