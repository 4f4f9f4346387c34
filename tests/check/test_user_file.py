"""A check from a user's file: its forms, what is said of every bad one, and where its options go."""

import re
import sys

import pytest

from npformer.check.adapters.user_file import CHECK_OPTIONS, FORM, user_case
from npformer.check.report import WRONG
from npformer.errors import ConfigError, DataError

START = """
import numpy as np
X = np.random.default_rng(0).normal(size=(2, 3))

class Model:
    def forward(self, x, times=1.0):
        return times * np.tanh(x), (times, x)
    def backward(self, dy, cache):
        return cache[0] * dy / np.cosh(cache[1]) ** 2

class Sharp:
    def forward(self, x):
        return np.abs(x), np.sign(x.real)
    def backward(self, dy, sign):
        return dy * sign
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def make(text, name="mine.py"):
        (tmp_path / name).write_text(START + text)
        return name

    return make


def test_the_default_function_is_build(write, numpy64):
    case = user_case(write("def build(): return Model(), (X,)"))
    assert (case.group, case.name, case.options, case.how) == ("user", "Model", {}, {})
    report = case.check(numpy64)
    assert (report.name, report.ok) == ("Model", True)
    assert case.build(numpy64) is case.build(numpy64)


def test_another_function_by_name(write):
    write("def build(): 1 / 0\ndef other(): return Model(), (X,), {'times': 2.0}")
    assert user_case("mine.py:other").options == {"times": 2.0}


def test_a_pair(write, numpy64):
    text = "def double(x): return 2 * x, None\ndef build(): return (double, lambda dy, _: 3 * dy), (X,)"
    report = user_case(write(text)).check(numpy64)
    assert (report.name, report.rows[0].verdict) == ("double", WRONG)


def test_options_go_to_forward_and_to_the_check(write, numpy64):
    assert {"complex_step", "tolerance", "seed", "elementwise", "allow_length_one", "name"} <= CHECK_OPTIONS
    case = user_case(write("def build(): return Model(), (X,), {'times': 3.0, 'seed': 5, 'name': 'mine'}"))
    assert (case.options, case.how) == ({"times": 3.0}, {"seed": 5, "name": "mine"})
    report = case.check(numpy64)
    assert (report.name, report.ok) == ("mine", True)
    plain = user_case(write("def build(): return Model(), (X,), {'times': 3.0}")).check(numpy64)
    assert plain.rows[0].numeric != report.rows[0].numeric
    sharp = "def build(): return Sharp(), (X,), {'complex_step': %s}"
    dropped = [bool(user_case(write(sharp % step)).check(numpy64).notes) for step in (True, False)]
    assert dropped == [True, False]


def test_the_file_may_import_its_neighbours(write, numpy64, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "neighbour_of_mine.py").write_text("three = 3.0")
    (folder / "mine.py").write_text(
        START + "from neighbour_of_mine import three\ndef build(): return Model(), (X,), {'times': three}"
    )
    before = list(sys.path)
    assert user_case("folder/mine.py").options == {"times": 3.0}
    assert sys.path == before


@pytest.mark.parametrize("spec", ["none.py:build", "mine.py:", "."])
def test_no_such_file(write, spec):
    write("def build(): return Model(), (X,)")
    text = f"expected a Python file, or FILE.py:NAME, got {spec!r}; there is no file "
    with pytest.raises(DataError, match=f"^{re.escape(text)}"):
        user_case(spec)


LINES = len(START.splitlines())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 / 0", f", line {LINES + 1}: expected a file that runs, got ZeroDivisionError: division by zero"),
        ("def build(:", ": expected a file that runs, got SyntaxError: invalid syntax"),
        ("import sys; sys.exit(3)", f", line {LINES + 1}: expected a file that runs, got SystemExit: 3"),
        (
            "def build(): return len()",
            f", line {LINES + 1}: expected a file that runs, got TypeError: len() takes exactly",
        ),
    ],
)
def test_a_file_that_does_not_run(write, text, message):
    with pytest.raises(DataError, match=f"^mine.py{re.escape(message)}"):
        user_case(write(text))


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("", "there is no such function"),
        ("def build(more, *, axis, eps=1e-5, **rest): pass", "build(more, axis) is a function with inputs"),
        ("build = 7", "it is an object of type int"),
        ("def build(): pass", "it returned None"),
        ("def build(): return Model()", "it returned an object of type Model"),
        ("def build(): return Model(), X", "it returned (target, an object of type ndarray)"),
        ("def build(): return Model(), (X,), 5", "it returned (target, a tuple of 1, an object of type int)"),
        ("def build(): return Model(), (X,), {}, 5", "it returned a tuple of 4"),
        ("def build(): return Model(), [X]", "it returned (target, an object of type list)"),
    ],
)
def test_another_form(write, text, form):
    with pytest.raises(ConfigError, match=f"^{re.escape(f'mine.py: expected build, {FORM}; {form}')}$"):
        user_case(write(text))


@pytest.mark.parametrize("target", ["Model", "(1, 2)", "(len,)"])
def test_a_target_that_cannot_be_checked(write, target):
    with pytest.raises(ConfigError, match=r"^mine.py: expected of build a target with the methods forward and backwar"):
        user_case(write(f"def build(): return {target}, (X,)"))


def test_an_error_of_npformers_is_passed_on_as_it_is(write):
    write("from npformer.errors import ConfigError\ndef build(): raise ConfigError('d_model: expected 8')")
    with pytest.raises(ConfigError, match=r"^d_model: expected 8$"):
        user_case("mine.py")
