"""The first wrong line of a learner's backward; nothing is said where names may mean something else."""

import pytest

from npformer.lab.grader import find, grade_file, report
from npformer.lab.grader.line_by_line import first_wrong_line
from npformer.lab.grader.source import read_source
from npformer.lab.grader.templates import template
from tests.lab.learner import each

NORM = """x_hat, r, gamma = cache
    dx_hat = dy * gamma
    dr = (dx_hat * x_hat).sum(axis=-1, keepdims=True)
    dx = r * (dx_hat - dx_hat.mean(axis=-1, keepdims=True))
    return dx, (dy * x_hat).sum(axis=(0, 1)), dy.sum(axis=(0, 1))
"""


def written(name, body, folder):
    """An exercise's file with this backward."""
    path = folder / f"{name}.py"
    given = template(find(name)).partition("    raise NotImplementedError")[0]
    path.write_text(f"{given}    {body}")
    return path


@pytest.fixture
def found(tmp_path):
    return lambda name, body: first_wrong_line(find(name), read_source(written(name, body, tmp_path)))


def test_a_line_between_is_named_with_what_it_lacks(found, tmp_path):
    cause = found("layer_norm", NORM)
    line = (tmp_path / "layer_norm.py").read_text().splitlines()[cause.line - 1]
    assert line == "    dr = (dx_hat * x_hat).sum(axis=-1, keepdims=True)"
    assert cause.sentences == (f"line {cause.line}: `x_hat` should be `centred`",)


def test_what_is_returned_is_a_line_as_well(found):
    cause = found("softmax", "y = cache\n    return y * (1 - y) * dy\n")
    assert "takes only each entry's own share of y" in cause.sentences[0]


@each(
    "name, body",
    {
        "right": ("softmax", "y = cache\n    return y * (dy - (dy * y).sum(axis=-1, keepdims=True))\n"),
        "other names": ("softmax", "p = cache\n    return p * dy\n"),
        "a name of the forward": ("softmax", "y = cache\n    total = 1\n    return y * dy * total\n"),
        "no formula": ("softmax", "y = cache\n    return np.array([d for d in dy])\n"),
        "no template": ("gelu", "x, phi_below = cache\n    return dy\n"),
    },
)
def test_nothing_is_said(name, body, found):
    assert found(name, body) is None


def test_another_forward_is_left_out(tmp_path):
    path = written("layer_norm", NORM, tmp_path)
    path.write_text(
        path.read_text().replace("r = 1 / np.sqrt(", "r = (1 / np.sqrt(").replace(" + eps)", " + eps) + 0)")
    )
    assert first_wrong_line(find("layer_norm"), read_source(path)) is None


def test_a_report_tells_the_line_first_and_its_change_at_the_third_hint(tmp_path):
    (grade,) = grade_file(written("softmax", "y = cache\n    return y * dy\n", tmp_path))
    first, third = (report.report(grade, level, "npformer grade softmax.py") for level in (1, 3))
    assert "dx, is the first that is wrong" in first
    assert "should be" not in first
    assert "should be" in third
    assert report.to_dict(grade, 1)["first_wrong_line"] == grade.line.line
