"""A quote fits the same code under other names, and nothing else."""

import ast
import inspect
import textwrap

import pytest

from npformer.lab.museum.bugs import BUGS
from npformer.lab.museum.patch import function_at
from npformer.lab.quote import QuoteError, renamed, replaced, variables

LAST = "    return 2 * round(product), [width.real for width in (height, 1)]"
SOURCE = f"""\
def area(width, height):  # of a rectangle
    product = (
        width * height  # in square metres
    )
    if product < 0:
        product = -product  # never negative: naïve
{LAST}
"""


def changed(old, new, module=()):
    """The lines that differ, before and after."""
    before, after = SOURCE.splitlines(), replaced(SOURCE, old, new, module).splitlines()
    return [x.strip() for x in before if x not in after], [x.strip() for x in after if x not in before]


@pytest.mark.parametrize(
    ("old", "new", "after"),
    [
        ("width * height", "width - height", ["width - height  # in square metres"]),
        ("b*a", "b+a", ["width+height  # in square metres"]),
        ("(round(x))", "x + 1", ["return 2 * (product + 1), [width.real for width in (height, 1)]"]),
        ("round(x)", "abs(x)", ["return 2 * abs(product), [width.real for width in (height, 1)]"]),
        (
            "[w.real for w in (h, 1)]", "[w for w in (h, 2)]",
            ["return 2 * round(product), [width for width in (height, 2)]"],
        ),
        ("p = w * h", "new = w\np = new * h", ["new = width", "product = new * height"]),
        (
            "p = w * h\n...\nreturn 2 * round(p), [w.real for w in (h, 1)]", "...\nreturn p, [h for h in (w, 1)]",
            ["return product, [height for height in (width, 1)]"],
        ),
    ],
)  # fmt: skip
def test_the_change_has_the_names_of_the_function(old, new, after):
    assert changed(old, new)[1] == after


def test_statements_stay_and_move_with_their_comments_and_vanish_with_their_lines():
    old = "p = w * h\nif p < 0:\n    ...\nreturn p, w"
    moved = replaced(
        SOURCE.replace(LAST, "    return product, width"),
        old,
        "if w < 0:\n    if h < 0:\n        ...\np = w * h\nreturn w, p",
    )
    assert (
        "\n        if height < 0:\n            product = -product  # never negative: naïve\n    product = (\n" in moved
    )
    assert changed("p = w * h\nif p < 0:\n    p = -p", "p = w * h\nif p > 0:\n    p = -p")[1] == ["if product > 0:"]
    assert changed("p = -p", "pass")[1] == ["pass  # never negative: naïve"]
    assert replaced(SOURCE, "p = w * h", "").splitlines()[1] == "    if product < 0:"


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("w / h", "w", "exactly once, found it 0 times:\nw / h"),
        ("w * w", "w", "found it 0 times"),
        ("w.imag", "w", "found it 0 times"),
        ("abs(p)", "p", "found it 0 times"),
        ("w", "1", "found it 7 times"),
        ("-p", "-p * width", "expected a quote with width, which this uses"),
        ("-p", "-p * scale", "expected a quote with scale"),
        ("p = -p", "width = p", "expected a quote with width"),
        ("p = w * h\nif p < 0:\n    ...", "p = w * h\n", "expected three dots as often"),
    ],
)
def test_what_does_not_fit_is_an_error(old, new, problem):
    with pytest.raises(QuoteError, match=problem):
        replaced(SOURCE, old, new)


def test_a_name_of_the_module_is_no_variable():
    assert changed("-p", "-p * scale", {"scale"})[1] == ["product = -product * scale  # never negative: naïve"]
    with pytest.raises(QuoteError, match="found it 0 times"):
        replaced(SOURCE, "-scale", "scale", {"scale"})


@pytest.mark.parametrize("target", sorted({edit.where for bug in BUGS for edit in bug.edits}))
def test_every_edit_of_the_museum_survives_another_name_of_any_variable(target):
    function = function_at(target)
    source = textwrap.dedent(inspect.getsource(function))

    def edited(source, bug):
        for edit in bug.edits:
            if edit.where == target:
                source = replaced(source, edit.old, edit.new, function.__globals__)
        return source

    for bug in BUGS:
        if target in bug.targets:
            wrong = edited(source, bug)
            for name in variables(ast.parse(source)):
                names = {name: f"{name}_by_another_name"}
                assert edited(renamed(source, names), bug) == renamed(wrong, names), (bug.id, name)
