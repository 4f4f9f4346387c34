"""Docstrings as Markdown and as reStructuredText: formulas stay as they are, and all else means itself."""

import pytest

from docs.site.plain_text import blocks, markdown, rst, sentences

TEXT = """A sentence about x_hat and ``layer_norm``.

    y = x W + b         with * and _ in it

        further in

The next *one*, arXiv:1607.06450, eq. 3, `x` and |x|
on two lines.
"""


def test_formulas_are_told_from_sentences():
    parts = blocks(TEXT)
    assert [part.is_formula for part in parts] == [False, True, False]
    assert parts[1].text == "y = x W + b         with * and _ in it\n\n    further in"


def test_markdown():
    assert markdown(TEXT).splitlines() == [
        r"A sentence about x\_hat and `layer_norm`.", "", "```text", "y = x W + b         with * and _ in it", "",
        "    further in", "```", "",
        r"The next *one*, [arXiv:1607.06450](https://arxiv.org/abs/1607.06450), eq. 3, \`x\` and \|x\|",
        "on two lines.",
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["a_ b_", "*a", "`a", "|a|", "a::", "[1]_", "\\", "x**2", "<a>", "``a`` and *b*"])
def test_nothing_is_taken_for_a_mark(text):
    core = pytest.importorskip("docutils.core", reason="needs Sphinx: pip install 'npformer[docs]'")
    tree = core.publish_doctree("\n".join(rst(text)), settings_overrides={"report_level": 5})
    assert tree.astext() == text.replace("``", "")
    assert "problematic" not in str(tree)


def test_what_is_code_keeps_its_marks():
    assert sentences("``a_b`` and c_d") == r"`a_b` and c\_d"
