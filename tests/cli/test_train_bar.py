"""On a terminal npformer train shows a bar."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from contextlib import suppress


def shown_at(columns, words, environment, folder):
    """What a terminal of so many columns gets on standard error, and standard output, a pipe."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    argv = [sys.executable, "-m", "npformer", *words]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=theirs, cwd=str(folder), env=environment) as child:
        os.close(theirs)
        shown = b""
        with suppress(OSError):  # how a terminal reports that its other side is closed
            while chunk := os.read(ours, 4096):
                shown += chunk
        out = child.stdout.read().decode()
        assert child.wait(timeout=600) == 0
    os.close(ours)
    return shown.decode(), out


def test_a_bar_on_a_terminal(small, environment, tmp_path):
    environment = environment | {"TERM": "xterm"}
    text, out = shown_at(60, ["train", "copy", *small(steps=90, kernels="numpy")], environment, tmp_path)
    assert re.search(r"\rtraining \|█{9,}\| 90/90 \d\d:\d\d<00:00, loss \d\.\d{4} at 90 *\r\n", text)
    assert text.index("the run's folder is") < text.index("|"), "the bar begins after the introduction"
    unfolded = text.replace("\r\n  ", " ")
    assert re.search(r"\rstep 15/90  held-out: loss .* exact match \d+\.\d %\r\n", unfolded)
    assert re.search(r"\rstep  7/90  loss ", text), "lines of the loss stay above the bar"
    bars = [part for part in re.split(r"[\r\n]", text) if "█" in part]
    assert max(map(len, bars)) <= 60
    assert "\r" not in out
    assert "held-out exact match" in out
