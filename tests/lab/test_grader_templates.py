"""Templates: complete, empty where they should be, plain NumPy, and never written over anything."""

import ast

import pytest

from npformer.errors import OutputError
from npformer.lab.grader import EXERCISES, grade_file, templates
from npformer.lab.grader.parts import FUNCTIONS
from tests.lab.learner import each_exercise


@each_exercise
def test_a_template_is_a_complete_question(exercise):
    text = templates.template(exercise)
    tree = ast.parse(text)
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name[0] != "_"}
    assert list(functions) == [f"{exercise.name}_forward", f"{exercise.name}_backward"]
    _, body = functions[f"{exercise.name}_backward"].body  # docstring, and nothing but
    assert isinstance(body, ast.Raise)
    doc = ast.get_docstring(tree) or ""
    for gradient in exercise.gradients:
        assert gradient in doc
    assert exercise.title in doc
    modules = {node.module for node in tree.body if isinstance(node, ast.ImportFrom)}
    assert modules <= {"parts"}


@each_exercise
def test_an_answer_holds_derivation_and_code(exercise):
    text = templates.answer(exercise)
    assert f"def {exercise.name}_backward(" in text
    assert "npformer.lab" not in text
    assert "Source" in text or "Backward" in text, "the derivation"
    assert ("dtotal = LN'ᵀ dx" in text) == ("layer_p" in exercise.name or exercise.name == "decoder_layer")


def test_an_untouched_template_is_not_begun(tmp_path):
    path = tmp_path / "softmax.py"
    templates.write_new(path, templates.template(EXERCISES[3]))
    (found,) = grade_file(path)
    assert found.verdict == "not begun"
    assert [f.name for f in found.findings if f.ok] == ["forward", "inputs"]


def test_a_template_overwrites_nothing(tmp_path):
    path = tmp_path / "softmax.py"
    path.write_text("my work")
    with pytest.raises(OutputError, match="nothing is ever overwritten"):
        templates.write_new(path, "template")
    assert path.read_text() == "my work"
    with pytest.raises(OutputError, match="cannot be written"):
        templates.write_new(tmp_path / "no folder" / "softmax.py", "template")


def test_the_parts_of_all_exercises_run_by_themselves():
    names = {}
    exec(templates.all_parts(), names)
    assert "decoder_layer_backward" not in names
    assert {name for exercise in EXERCISES for name in exercise.available} <= names.keys()
    assert "Array" not in templates.all_parts()
    assert FUNCTIONS["softmax_backward"].__doc__ in templates.all_parts()
