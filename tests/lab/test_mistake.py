"""A change of a text fits one place of it, and its lines are indented as those there."""

import pytest

from npformer.lab.mistake import EditError, replaced

SOURCE = """\
def area(width, height):
    product = width * height  # in square metres
    if product < 0:
        product = -product
    return product
"""


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        ("width * height", "width + height", ["    product = width + height  # in square metres"]),
        ("if product < 0:\n    product = -product\n", "if width < 0:\n    product = 0",
         ["    if width < 0:", "        product = 0"]),
        ("product = -product", "product = 1\nwidth = 2", ["        product = 1", "        width = 2"]),
    ],
)  # fmt: skip
def test_the_new_text_stands_where_the_old_one_was(old, new, lines):
    assert [line for line in replaced(SOURCE, old, new).splitlines() if line not in SOURCE.splitlines()] == lines


@pytest.mark.parametrize(("old", "times"), [("width / height", 0), ("product", 5), ("if product < 0:\nproduct", 0)])
def test_what_does_not_fit_one_place_is_an_error(old, times):
    with pytest.raises(EditError, match=f"expected this code exactly once, found it {times} times:\n{old[:5]}"):
        replaced(SOURCE, old, "1")
