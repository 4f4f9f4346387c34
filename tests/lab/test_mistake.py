"""A change of a text fits one place of it."""

import pytest

from npformer.lab.mistake import EditError, replaced

SOURCE = """\
def area(width, height):
    product = width * height  # in square metres
    return abs(product)
"""


def test_the_new_text_stands_where_the_old_one_was():
    wrong = replaced(SOURCE, "width * height", "width + height")
    assert wrong.splitlines()[1] == "    product = width + height  # in square metres"


@pytest.mark.parametrize(("old", "times"), [("width / height", 0), ("product", 2)])
def test_what_does_not_fit_one_place_is_an_error(old, times):
    with pytest.raises(EditError, match=f"expected this code exactly once, found it {times} times:\n{old}"):
        replaced(SOURCE, old, "1")
