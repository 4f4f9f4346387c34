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


def test_a_bar_on_a_terminal(small, environment, tmp_path):
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
    argv = [sys.executable, "-m", "npformer", "train", "copy", *small(steps=90)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=theirs, cwd=str(tmp_path), env=environment) as child:
        os.close(theirs)
        shown = b""
        with suppress(OSError):  # how a terminal reports that its other side is closed
            while chunk := os.read(ours, 4096):
                shown += chunk
        out = child.stdout.read().decode()
        assert child.wait(timeout=600) == 0
    os.close(ours)
    text = shown.decode()
    assert re.search(r"\r100%\|█+\| 90/90 \[.*(?:step/s|s/step), loss \d\.\d{4}  rate", text)
    assert text.index("the run's folder is") < text.index("%|"), "the bar begins after the introduction"
    assert re.search(r"\rstep 15/90  held-out: loss .* exact match \d+\.\d %\r\n", text)
    assert "step  7/90" not in text, "lines of a log beside the bar"
    assert "\r" not in out
    assert "held-out exact match" in out
