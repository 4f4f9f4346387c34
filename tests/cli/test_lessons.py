"""npformer lessons: the list, a lesson, progress in the learner's folder; and every command of the lessons runs."""

import json
import shlex

import pytest

from npformer.lab.grader.progress import NAME
from npformer.lab.lessons import LESSONS
from tests.lab.learner import answered

#: Fewer checks of the same kind.
FEWER = {"EncoderLayer: post, relu": "FeedForward: relu", "attention: causal": "attention: causal and padding"}


def smaller(command, small):
    """The words of a lesson's command, for less work."""
    words = shlex.split(command)[1:]
    if words[0] == "train":
        return [*words, *small()]
    return [*words[:-1], "2"] if "--sample" in words else [FEWER.get(word, word) for word in words]


@pytest.mark.parametrize("lesson", LESSONS, ids=[lesson.title for lesson in LESSONS])
def test_every_command_of_a_lesson_runs(cli, tmp_path, small, lesson):
    """As the page has them, in their order, by a learner whose answers are right."""
    codes = []
    for command in lesson.commands:
        if command.startswith("npformer grade ") and command.endswith(".py"):
            for name in lesson.exercises:
                if (tmp_path / f"{name}.py").exists() or lesson.file:
                    (tmp_path / command.split()[-1]).write_bytes(answered(name, tmp_path).read_bytes())
        done = cli(*smaller(command, small))
        assert "Traceback" not in done.err
        codes.append((command, done.code))
    wrong = [command for command, code in codes if code]
    assert wrong == [f"npformer gradcheck --model {lesson.file}"] * bool(lesson.file), codes
    if lesson.exercises:
        assert cli("lessons --json").document["lessons"][lesson.number - 1]["state"] == "done"


def test_the_list_and_a_lesson(cli, tmp_path):
    lines = cli("lessons").lines
    assert [line.split()[:2] for line in lines[:8]] == [["·", str(number)] for number in range(1, 9)]
    assert lines[-1] == "0 of 8 done; next: npformer lessons 1"
    assert not (tmp_path / NAME).exists(), "a list notes nothing"
    shown = cli("lessons 1").out
    assert "npformer grade --template linear" in shown
    assert json.loads((tmp_path / NAME).read_text())["lessons"] == {"1": "in progress"}
    cli("grade", answered("linear", tmp_path))
    lines = cli("lessons").lines
    assert (lines[0].split()[0], lines[0].split()[-1]) == ("✓", "done")
    assert lines[-1] == "1 of 8 done; next: npformer lessons 2"
    assert max(map(len, lines)) <= 80


def test_a_lesson_is_done_when_the_learner_says_so(cli, tmp_path):
    done = cli("lessons 7 --done").fine()
    assert done.out.startswith("lesson 7 is done\n")
    cli("lessons 7")
    assert json.loads((tmp_path / NAME).read_text())["lessons"] == {"7": "done"}, "reading it again changes nothing"
    assert cli("lessons 7 --json").document["state"] == "done"


def test_progress_is_left_alone_on_request(cli, tmp_path):
    cli("lessons 2 --no-progress").fine()
    assert list(tmp_path.iterdir()) == []


def test_the_file_of_the_last_lesson_is_written_once(cli, tmp_path):
    assert cli("lessons 8 --file layer.py").out.startswith("layer.py is written; ")
    before = (tmp_path / "layer.py").read_text()
    assert "npformer grade layer.py" in before
    cli("lessons 8 --file layer.py").refused("layer.py: it exists, and nothing is ever overwritten")
    assert (tmp_path / "layer.py").read_text() == before


def test_a_prediction_is_judged(cli, tmp_path):
    asked = cli("lessons 1").out
    assert "What shape has dweight?" in " ".join(asked.split())
    assert "npformer lessons 1 --predict 1 ANSWER" in asked
    assert "(3, 2)" not in asked.partition("Read")[2].partition("npformer explain linear")[0].replace(
        "weight (3, 2)", ""
    )
    right = cli("lessons 1 --predict 1 '(3, 2)'").fine()
    assert right.lines == ["Right: (3, 2).", "See it: npformer explain linear"]
    wrong = cli("lessons 1 --predict 1 2,3")
    assert (wrong.code, wrong.lines[0]) == (1, "Not yet: The sizes are right, their order is not.")
    assert "(3, 2)" not in wrong.out, "the answer is not told"
    assert cli("lessons 4 --predict 2 -1.41").lines[0] == "Not yet: The size is right, the sign is not."
    assert cli("lessons 4 --predict 4 -1e-4").fine().lines[0] == "Right: 0.", "a number, not an option"
    assert cli("lessons 2 --predict 4 Above").fine().lines[0] == "Right: above."
    document = cli("lessons 1 --predict 2 dx --json").document
    assert document == {"ok": False, "said": "No.", "command": "npformer museum show linear-bias-mean"}
    assert json.loads((tmp_path / NAME).read_text())["lessons"] == {"1": "in progress"}, "a prediction notes nothing"


def test_bad_input(cli):
    cli("lessons --predict 1 2").refused("--predict: expected the number of a lesson, got none")
    cli("lessons 1 --predict 3 dx").refused("--predict: expected a question of lesson 1 from 1 to 2, got '3'")
    cli("lessons 1 --predict 1", "1" * 5000).refused("--predict: expected a shape such as (2, 3), got '1111", "1…'")
    cli("lessons 1 --predict 1 2 --done").refused("--predict: expected no --done beside it")
    cli("lessons 9").refused("expected a number from 1 to 8, got 9", "npformer lessons")
    cli("lessons --done").refused("expected the number of a lesson, got none")
    cli("lessons 1 --file x.py").refused("expected a lesson that brings a file (8), got 1")
    assert cli("lessons softmax").code == 2
