"""Bars: what, how much of how much, how long; at every width, and only where somebody asked for them."""

import errno
import io
from types import SimpleNamespace

import pytest

from npformer.io import progress_bar
from npformer.io.progress_bar import Bar, say, show_bars, watched
from tests.io.test_terminal import Terminal


@pytest.fixture
def screen(monkeypatch):
    """Standard output and standard error: one terminal."""
    monkeypatch.setenv("TERM", "xterm")
    shown = Terminal()
    monkeypatch.setattr(progress_bar, "sys", SimpleNamespace(stdout=shown, stderr=shown))
    return shown


def test_items_are_counted_and_named_and_the_bar_is_removed(screen):
    with show_bars():
        for letter in watched("abc", "letters", name=lambda letter: f"the letter {letter}"):
            say(f"here is {letter}")
    shown = screen.getvalue()
    assert [line for line in shown.split("\n") if "here is" in line][-1].endswith("here is c")
    assert [shown.count(f"| {count}/3 00:00") > 0 for count in range(3)] == [True] * 3
    assert all(f", the letter {letter}" in shown for letter in "abc")
    first, *_, cleared, last = shown.split("\r")[1:]
    assert first.startswith("letters |")
    assert cleared.strip() == last == "", "nothing is left of it"


@pytest.mark.parametrize(("after", "is_drawn"), [(0, True), (10**9, False)])
def test_a_bar_that_is_drawn_only_after_a_time(screen, after, is_drawn):
    with show_bars(), Bar("elements", 3, after=after) as bar:
        bar.move(3)
    assert ("elements |" in screen.getvalue()) == is_drawn
    assert is_drawn or screen.getvalue() == ""


def test_a_program_that_calls_npformer_sees_no_bar(screen):
    assert list(watched([1, 2], "numbers")) == [1, 2]
    assert screen.getvalue() == ""


def test_a_log_has_no_bar(screen, monkeypatch):
    for stream in (io.StringIO(), None):
        monkeypatch.setattr(progress_bar, "sys", SimpleNamespace(stderr=stream))
        with show_bars():
            assert list(watched([1, 2], "numbers")) == [1, 2]
        assert stream is None or stream.getvalue() == ""


def test_a_notebook_has_no_bar_where_a_command_has_a_terminal(screen, notebook):
    with show_bars():
        assert list(watched([1, 2], "numbers")) == [1, 2]
    assert screen.getvalue() == ""


def test_text_is_printed_above_the_bar(screen):
    with show_bars(), Bar("work", 3) as one:
        one.move()
        say("a line that stays")
    shown = screen.getvalue()
    before, after = shown.split("a line that stays\n")
    assert before.endswith("\r")
    assert before.split("\r")[-2].strip() == "", "the bar is cleared before the line"
    assert "| 1/3 " in after, "and drawn again below it"


def test_names_from_a_user_cannot_move_the_cursor(screen):
    with show_bars(), Bar("work", 3) as one:
        say("", screen)
        one.note("evil\x1b[2J")
        say("", screen)
    assert "\x1b[2J" not in screen.getvalue()
    assert "evil\\x1b[2J" in screen.getvalue()


def test_a_terminal_that_is_gone_hides_no_error():
    class Gone:
        def close(self):
            raise OSError(errno.EIO, "gone")

    def work():
        with Bar("work", 3) as one:
            one._drawn = Gone()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
