"""The eight lessons: what they name exists, how far a learner is, and the fault of the last one."""

import re
from pathlib import Path

import numpy as np
import pytest

from docs.site.lessons_page import page
from npformer.check import gradcheck
from npformer.check.adapters.user_file import user_case
from npformer.check.report import NOT_BEGUN
from npformer.lab.grader import find, grade_file
from npformer.lab.grader.progress import DONE, IN_PROGRESS, Begun, ExerciseEntry, LearnerProgress
from npformer.lab.grader.report import report
from npformer.lab.lessons import LESSONS, lesson, text
from npformer.lab.lessons.broken import RIGHT, WRONG, broken
from npformer.lab.lessons.lessons import BROKEN_FILE, next_step
from npformer.lab.lessons.text import standing
from npformer.lab.museum.bugs import bug

ROOT = Path(__file__).resolve().parents[2]
ASKED = {"npformer explain linear": ["What shape has dweight, which is a question long enough for two lines of text?"],
         "npformer gradcheck --only linear": ["How many?", "How large?"]}  # fmt: skip
each_lesson = pytest.mark.parametrize("one", LESSONS, ids=[one.title for one in LESSONS])


@each_lesson
def test_what_a_lesson_names_exists(one):
    assert bug(one.bug)
    assert all(find(name) for name in one.exercises)
    texts = [step.text for _, steps in one.parts for step in steps]
    for name in re.findall(r"(?:npformer|docs|examples)/[\w/]+\.\w+", " ".join(texts)):
        assert (ROOT / name).is_file(), name
    assert all(command.startswith("npformer ") for command in one.commands)
    assert all(step.text for _, steps in one.parts for step in steps)
    assert [title for title, _ in one.parts if title != "Write"] == ["Read", "Meet a bug", "See"]


@each_lesson
def test_the_terminal_has_80_columns(one):
    lines = text.shown(one, LearnerProgress(Path()), {}, ASKED).splitlines()
    assert max(map(len, lines)) <= 80
    for command in one.commands:
        assert f"    {command}" in lines


def test_a_lesson_is_done_when_its_exercises_are():
    layer = lesson(5)
    none = LearnerProgress(Path())
    assert standing(layer, none, {}) == NOT_BEGUN
    assert standing(layer, none, {"feed_forward": Begun(Path("feed_forward.py"), True)}) == IN_PROGRESS
    assert standing(layer, LearnerProgress(Path(), lessons={"5": IN_PROGRESS}), {}) == IN_PROGRESS
    half = {"feed_forward": ExerciseEntry(1, 0, True)}
    assert standing(layer, LearnerProgress(Path(), half), {}) == IN_PROGRESS
    both = half | {"encoder_layer_post": ExerciseEntry(2, 1, True)}
    assert standing(layer, LearnerProgress(Path(), both), {}) == DONE
    assert standing(lesson(7), LearnerProgress(Path(), both), {}) == NOT_BEGUN, (
        "a lesson without exercises is not done by itself"
    )
    assert standing(lesson(7), LearnerProgress(Path(), lessons={"7": DONE}), {}) == DONE


def test_what_follows_an_exercise():
    follows = {name: next_step(name) for one in LESSONS for name in one.exercises}
    assert {name: step[1] for name, step in follows.items() if not step[1].startswith("npformer museum show")} == {
        "feed_forward": "npformer grade --template encoder_layer_post"
    }
    assert follows["encoder_layer_pre"] == (lesson(8), "npformer museum show pre-norm-stream-dropped")
    assert next_step("relu") is None


def test_the_end_of_a_lesson_says_what_makes_it_done():
    none = LearnerProgress(Path())
    for number, states, end in (
        (5, none, "It is done when feed_forward and encoder_layer_post are graded right."),
        (7, none, "npformer lessons 7 --done"),
        (7, LearnerProgress(Path(), lessons={"7": DONE}), "This lesson is done."),
    ):
        assert text.shown(lesson(number), states, {}, {}).endswith(end)


def questions(one):
    return {one.commands[0]: [("What shape?", "(2, 3)"), ("How many?", "17")]}


def test_the_page_asks_before_it_shows_and_hides_the_answer():
    shown = page(LESSONS, questions)
    first, _, rest = shown.partition("- `npformer explain linear`")
    assert "- Predict 1: What shape?\n  <details><summary>Answer</summary>(2, 3)</details>\n" in first
    assert "- Predict 2: How many?\n  <details><summary>Answer</summary>17</details>\n" in first
    assert rest.count("<details>") == 14
    assert "(2, 3)" not in re.sub("<details>.*</details>", "", shown)


def test_the_last_lessons_file_has_one_fault(tmp_path, monkeypatch):
    """Gradients that come out of the backward before it are right; mended, all are."""
    monkeypatch.syspath_prepend(tmp_path)
    from npformer.lab.grader.templates import all_parts

    (tmp_path / "parts.py").write_text(all_parts(), encoding="utf-8")
    path = tmp_path / "layer.py"
    path.write_text(broken("layer.py"), encoding="utf-8")
    case = user_case(str(path))
    rows = gradcheck(case.build(None), *case.inputs, explain=False).rows
    assert {row.tensor for row in rows if not row.ok} == {
        "x",
        "params['norm1']['gamma']",
        "params['norm1']['beta']",
    }
    assert len(rows) == 17
    (grade,) = grade_file(path)
    assert not grade.ok
    assert "dmemory" not in report(grade, 1, ""), "the first command on the file does not end on the answer"
    commands = [command for command in lesson(8).commands if BROKEN_FILE in command]
    assert [command.split()[1] for command in commands] == ["lessons", "grade", "gradcheck"]
    path.write_text(path.read_text(encoding="utf-8").replace(WRONG, RIGHT), encoding="utf-8")
    (grade,) = grade_file(path)
    assert grade.ok
    assert np.all([row.ok for row in gradcheck(user_case(str(path)).build(None), *case.inputs).rows])
