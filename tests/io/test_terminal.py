"""Colours only where they are read, and prose as wide as the terminal."""

import io
import os

import pytest

from npformer.io import terminal


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def usual(monkeypatch):
    monkeypatch.setattr(terminal, "_chosen", "auto")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")


RED = "\x1b[31mWRONG\x1b[0m"


@pytest.mark.parametrize(
    ("choice", "variables", "at_terminal", "at_pipe"),
    [
        ("auto", {}, RED, "WRONG"),
        ("auto", {"NO_COLOR": "1"}, "WRONG", "WRONG"),
        ("auto", {"NO_COLOR": ""}, RED, "WRONG"),  # the variable counts if it is not empty
        ("auto", {"TERM": "dumb"}, "WRONG", "WRONG"),
        ("never", {}, "WRONG", "WRONG"),
        ("always", {"NO_COLOR": "1", "TERM": "dumb"}, RED, RED),
    ],
)
def test_where_text_is_coloured(choice, variables, at_terminal, at_pipe, monkeypatch):
    terminal.choose_colour(choice)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    for stream, shown in ((Terminal(), at_terminal), (io.StringIO(), at_pipe)):
        monkeypatch.setattr("sys.stdout", stream)
        assert terminal.paint("WRONG", terminal.RED) == shown
    assert terminal.paint("", terminal.RED) == ""


def test_a_cell_of_a_notebook_is_known_by_what_its_kernel_sets(notebook, monkeypatch):
    assert terminal.in_notebook()
    assert terminal.paint("WRONG", terminal.RED) == "WRONG"  # no terminal
    monkeypatch.setattr("sys.stdout", Terminal())
    assert terminal.paint("WRONG", terminal.RED) == RED, "a command in a cell may be coloured"
    monkeypatch.setenv("GIT_PAGER", "less")
    assert not terminal.in_notebook()


@pytest.mark.parametrize(("wide", "columns"), [(20, 60), (60, 60), (80, 80), (97, 97), (300, 100)])
def test_the_width_of_prose_is_the_terminals_within_limits(wide, columns, monkeypatch):
    monkeypatch.setattr("shutil.get_terminal_size", lambda fallback: os.terminal_size((wide, 24)))
    monkeypatch.setattr("sys.stdout", Terminal())
    assert terminal.columns() == columns
    for stream in (io.StringIO(), None):
        monkeypatch.setattr("sys.stdout", stream)
        assert terminal.columns() == 80


def test_the_width_of_standard_error_is_that_of_its_own_terminal(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr("sys.stdout", io.StringIO())
    monkeypatch.setattr("sys.__stdout__", io.StringIO())
    stream = Terminal()
    stream.fileno = lambda: 7
    monkeypatch.setattr("os.get_terminal_size", lambda number: os.terminal_size((70 + number, 24)))
    assert terminal.columns(stream=stream) == 77


def test_a_message_is_folded_on_a_terminal_alone(monkeypatch):
    monkeypatch.setattr(terminal, "columns", lambda stream: 30)
    message = "npformer: a/very/long/path/that-has-no/blank: expected 0 < x <= 1, got 2\n  gamma (4,)"
    assert terminal.folded(message, io.StringIO()) == message
    lines = ["npformer:", "  a/very/long/path/that-has-no/blank:", "  expected 0 < x <= 1, got 2", "  gamma (4,)"]
    assert terminal.folded(message, Terminal()).split("\n") == lines


def test_a_number_and_its_unit_stay_on_one_line():
    assert terminal.fill("it takes 12 % of it, or 3.1 ms", 12) == "it takes\n12 % of it,\nor 3.1 ms"
    assert terminal.fill("one two three", 9, "- ", "  ") == "- one two\n  three"


def test_columns_are_as_wide_as_their_contents_and_the_last_goes_first(monkeypatch):
    rows = [("softmax", "Softmax", "in progress"), ("add_norm", "Pre-LN", "")]
    expected = {
        60: ["softmax   Softmax  in progress", "add_norm  Pre-LN"],
        20: ["softmax   Softmax", "add_norm  Pre-LN"],
    }
    for wide, lines in (expected | {9: ["softmax", "add_norm"], 2: ["softmax", "add_norm"]}).items():
        monkeypatch.setattr(terminal, "columns", lambda wide=wide: wide)
        assert terminal.aligned(rows) == lines
