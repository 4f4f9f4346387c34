"""RunProgress: a bar where there is a terminal, whole lines where there is none."""

import errno
import io
import re

import pytest

from npformer.run.progress import RunProgress
from tests.io.test_terminal import Terminal

TRAIN = {"step": 7, "kind": "train", "loss": 1.23456, "learning_rate": 0.002, "tokens_per_second": 12345.6}
EVAL = {"step": 7, "kind": "eval", "loss": 0.5, "token_accuracy": 0.9999, "exact_match": 0.12345, "examples": 9}


@pytest.fixture(autouse=True)
def usual(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")


def tell(stream, done=0):
    progress = RunProgress(1000, done, stream)
    progress.say("before")
    for _ in range(3):
        progress.advance()
    progress.news(TRAIN)
    progress.news(EVAL)
    progress.say("a line that stays")
    progress.close()
    return stream.getvalue()


def test_lines_in_a_log():
    *lines, last = tell(io.StringIO()).splitlines()
    assert re.fullmatch(r"step 3/1000  after \d+:\d\d", last)
    assert lines == [
        "before",
        "step    7/1000  loss 1.2346  rate 2.00e-03  12,346 tokens/s",
        "step    7/1000  held-out: loss 0.5000, tokens 99.9 %, exact match 12.3 %",
        "a line that stays",
    ]


def test_a_bar_on_a_terminal():
    shown = tell(Terminal(), done=500)
    assert shown.startswith("before\n"), "nothing of the bar before the first step"
    assert re.search(r"\rtraining \|.*\| 500/1000 ", shown)
    assert re.search(r"\| 503/1000 \d\d:\d\d.*, loss 1.2346 at 7", shown)
    assert re.search(r"\| 503/1000 [^\r]*\n$", shown), "the bar's last state stays"


def test_a_long_line_is_folded_on_a_terminal_and_its_breaks_are_no_text(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    line = f"note: {'the rate of the next step changes with it ' * 4}\x1b[2J"
    terminal, log = Terminal(), io.StringIO()
    for stream in (terminal, log):
        RunProgress(1000, 0, stream).say(line)
    shown = terminal.getvalue().splitlines()
    assert len(shown) > 1
    assert max(map(len, shown)) <= 60
    assert " ".join(map(str.strip, shown)) == log.getvalue().strip() == line.replace("\x1b", "\\x1b")


def test_every_line_of_a_log_stays_on_a_terminal():
    """Each is printed where the bar was, which is drawn again below it."""
    lines = tell(io.StringIO()).splitlines()[1:-1]
    shown = tell(Terminal())
    assert all(f"\r{line}\n" in shown for line in lines)


def test_the_stream_is_stderr_as_it_is_at_the_time(capsys):
    RunProgress(5).say("hello")
    assert capsys.readouterr() == ("", "hello\n")


class Closed(io.StringIO):
    """Takes so many lines; then its reader has gone."""

    def __init__(self, lines=0, code=errno.EPIPE):
        super().__init__()
        self._left, self._code, self.tried = lines, code, 0

    def write(self, text):
        if self._left <= 0:
            self.tried += 1
            raise OSError(self._code, "no reader")
        self._left -= text.endswith("\n")
        return super().write(text)


@pytest.mark.parametrize("code", [errno.EPIPE, errno.EIO])  # EIO: of a terminal that is no more
def test_a_reader_who_has_gone_is_noted_and_told_no_more(code):
    stream = Closed(lines=1, code=code)
    progress = RunProgress(5, stream=stream)
    progress.say("heard")
    assert not progress.reader_has_gone
    for _ in range(3):
        progress.news(TRAIN)
    assert progress.reader_has_gone
    assert stream.tried == 1
    assert stream.getvalue() == "heard\n"


def test_a_bar_whose_terminal_has_gone(monkeypatch):
    stream = Closed(code=errno.EIO)
    monkeypatch.setattr(stream, "isatty", lambda: True)
    progress = RunProgress(5, stream=stream)
    progress.advance()
    progress.news(TRAIN)
    progress.news(EVAL)
    assert progress.reader_has_gone
    progress.close()


def test_other_errors_of_the_output_are_told():
    with pytest.raises(OSError, match="no reader"):
        RunProgress(5, stream=Closed(code=errno.ENOSPC)).say("x")
