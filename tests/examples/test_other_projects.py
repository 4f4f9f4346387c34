"""Each of ten pairs: the right version is right, and the wrong one is WRONG in the intended gradients."""

import runpy
from pathlib import Path

import pytest

import npformer as npf
from examples.other_projects import attention, common, dropout, formulas, linear, tokens
from npformer.check import gradcheck

FOLDER = Path(common.__file__).parent
THEMES = (linear, formulas, attention, dropout, tokens)
#: The gradients that each mistake makes wrong, in the order of the inputs.
WRONG = {
    "dx without W": ["x"],
    "a bias averaged where it should be summed": ["bias"],
    "layer normalisation without the x-hat term": ["x"],
    "GELU with few digits": ["x"],
    "a reshape where heads are merged by a transposition": ["x"],
    "a mask on weights instead of scores": ["q", "k", "v"],
    "dropped weights where the softmax needs its own": ["scores"],
    "one mask used twice": ["x"],
    "rows assigned instead of added": ["table"],
    "a loss divided twice by N": ["logits"],
}
#: The cause that the report names, for mistakes with a known cause.
SAID = {
    "a bias averaged where it should be summed": "mean",
    "layer normalisation without the x-hat term": "x_hat",
    "rows assigned instead of added": "not accumulated",
    "a loss divided twice by N": "1/N",
}


@pytest.fixture(scope="module")
def reports():
    """Of all examples, run once: for each mistake that of the right backward, and that of the wrong one."""
    reports = []

    def checking(pair, *inputs):
        reports.append(gradcheck(pair, *inputs))
        return reports[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(npf, "gradcheck", checking)
        runpy.run_module("examples.other_projects", run_name="__main__")
    return reports


@pytest.mark.parametrize("each", [m for theme in THEMES for m in theme.MISTAKES], ids=lambda each: each.what)
def test_the_right_one_is_right_and_the_wrong_one_wrong_where_it_is(each, reports):
    at = 2 * list(WRONG).index(each.what)
    right, report = reports[at : at + 2]
    assert right.ok, str(right)
    assert [row.tensor for row in report.rows if row.verdict == "WRONG"] == WRONG[each.what]
    assert [row.tensor for row in report.rows if row.verdict not in ("WRONG", "right")] == []
    assert SAID.get(each.what, "") in " ".join(row.diagnosis for row in report.rows)


def test_the_lists_name_every_pair():
    assert list(WRONG) == [mistake.what for theme in THEMES for mistake in theme.MISTAKES]
    assert set(SAID) <= set(WRONG)
    files = {path.stem for path in FOLDER.glob("*.py")} - {"__init__", "__main__", "common"}
    assert files == {Path(theme.__file__).stem for theme in THEMES}


def test_one_theme_is_printed_alone(capsys):
    runpy.run_path(str(FOLDER / "linear.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert [line for line in printed.splitlines() if line in WRONG] == [mistake.what for mistake in linear.MISTAKES]
