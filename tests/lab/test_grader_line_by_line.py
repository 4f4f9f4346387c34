"""The first wrong line of a learner's backward; nothing is said of names that may mean something else."""

import ast

import pytest

from npformer.io.child.lines import STEPS, LineValues
from npformer.lab.grader import find, grade_file, report
from npformer.lab.grader.exercises import cases_of
from npformer.lab.grader.line_by_line import compared
from npformer.lab.grader.parts import TEXTS
from npformer.lab.grader.templates import template
from tests.lab.learner import each, each_exercise

NORM = """x_hat, r, gamma = cache
    dx_hat = dy * gamma
    dr = (dx_hat * x_hat).sum(axis=-1, keepdims=True)
    dx = r * (dx_hat - dx_hat.mean(axis=-1, keepdims=True))
    return dx, (dy * x_hat).sum(axis=(0, 1)), dy.sum(axis=(0, 1))
"""
FEED_FORWARD = """up, active, dropout, down = cache
    ddropped, dw2, db2 = linear_backward(dy, down)
    dh = da = dropout_backward(ddropped, dropout)
    dx, dw1, db1 = linear_backward(dh, up)
    return dx, dw1, db1, dw2, db2
"""
POST_NORM = """residual_cache, norm_cache = cache
    dtotal, dgamma, dbeta = layer_norm_backward(dy * 2, norm_cache)
    return (*residual_backward(dtotal, residual_cache), dgamma, dbeta)
"""
IN_PLACE = """y = cache
    dx = y * dy
    dx -= y * dx.mean(axis=-1, keepdims=True)
    return dx
"""
ONE_WAY = """x_hat, r, gamma = cache
    dcentred = r * dy * gamma
    dx = dcentred - dcentred.mean(axis=-1, keepdims=True)
    return dx, (dy * x_hat).sum(axis=(0, 1)), dy.sum(axis=(0, 1))
"""


@pytest.fixture
def graded(tmp_path):
    """The grade of an exercise with this backward, and the file's lines."""

    def grade(name, body, change=lambda text: text):
        path = tmp_path / f"{name}.py"
        given = change(template(find(name)).partition("    raise NotImplementedError")[0])
        path.write_text(f"{given}    {body}")
        (found,) = grade_file(path)
        return found, path.read_text().splitlines()

    return grade


def test_the_name_that_an_exercise_proposes_is_compared(graded):
    assert "reaches x̂ is dx_hat" in find("layer_norm").hint
    assert graded("layer_norm", NORM)[0].lines[0].name == "dx_hat"


@each(
    "name, body, right, wrong",
    {
        "one name": ("layer_norm", NORM, ("dx_hat",), "    dr = (dx_hat * x_hat).sum(axis=-1, keepdims=True)"),
        "two names": ("feed_forward", FEED_FORWARD, ("ddropped", "dw2", "db2"), FEED_FORWARD.splitlines()[2]),
        "a call's result": ("post_norm", POST_NORM, (), POST_NORM.splitlines()[1]),
        "in place": ("softmax", IN_PLACE, (), IN_PLACE.splitlines()[2]),
        "one way of two": ("layer_norm", ONE_WAY, (), ONE_WAY.splitlines()[1]),
    },
)
def test_the_first_wrong_line_is_named(name, body, right, wrong, graded):
    found, lines = graded(name, body)
    assert lines[found.lines[-1].line - 1] == wrong
    assert tuple(claim.name for claim in found.lines if claim.ok)[: len(right)] == right


@each_exercise
def test_no_line_of_a_right_backward_is_wrong(exercise):
    """A share of a gradient, to which others are added, is none: dx2 of a decoder layer."""
    case, backward = cases_of(exercise)[0], TEXTS[exercise.functions[1]]
    with LineValues(exercise.backward) as seen:
        results = exercise.backward(case.upstream, case.cache)
    results = results if isinstance(results, tuple) else (results,)
    found = compared(exercise, case, ast.parse(backward), seen.last, results)
    assert all(claim.ok for claim in found)


@each(
    "name, body",
    {
        "right": ("softmax", "y = cache\n    return y * (dy - (dy * y).sum(axis=-1, keepdims=True))\n"),
        "no name of the forward": ("softmax", "y = cache\n    return y * dy\n"),
        "not numbers": ("softmax", "y = cache\n    dpowers = {}\n    return y * dy\n"),
    },
)
def test_nothing_is_said(name, body, graded):
    found, _ = graded(name, body)
    assert "Line by line" not in report.report(found, 3, "npformer grade mine.py")


def test_another_forward_is_left_out(graded):
    found, _ = graded("layer_norm", NORM, lambda text: text.replace(" + eps)", " + eps + 0)"))
    assert not found.lines


def test_a_report_tells_the_line_and_what_else_was_compared(graded):
    wrong, _ = graded("layer_norm", NORM)
    line = wrong.lines[-1].line
    told = " ".join(report.report(wrong, 1, "npformer grade layer_norm.py").split())
    first = f"dx_hat is right; the first wrong value is that of dr, by line {line}: not the derivative by r"
    assert f"on “{cases_of(find('layer_norm'))[0].label}” {first}" in told
    assert report.to_dict(wrong, 1)["first_wrong_line"] == line
    own, _ = graded("softmax", "y = cache\n    dpowers = dy * y\n    dtotal = dpowers\n    return dtotal\n")
    assert "the first wrong value is that of dpowers" in report.report(own, 1, "npformer grade softmax.py")
    part = (
        "x_hat, r, gamma = cache\n    dx_hat = dy * gamma\n    return r * dx_hat, dx_hat.sum((0, 1)), dy.sum((0, 1))\n"
    )
    rest, _ = graded("layer_norm", part)
    told = " ".join(report.report(rest, 1, "npformer grade layer_norm.py").split())
    assert "dx_hat is right; compared are names of the forward with a d before them, and no other line is" in told
    assert report.to_dict(rest, 1)["first_wrong_line"] is None


def test_a_long_loop_is_not_followed():
    def backward(dy, cache):
        dx = dy * 2
        for _ in range(STEPS):
            dx = dx + 1
        return dx

    with LineValues(backward) as seen:
        assert backward(1.0, None) == 2 + STEPS
    assert seen.last == {}
