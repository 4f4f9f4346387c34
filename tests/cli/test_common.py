"""Verdicts in colour, only in their places; examples of a help text at every width."""

import json
import re

import pytest

from npformer.cli.common import tell
from npformer.io import terminal


def unpainted(text):
    """The text without colours."""
    return re.sub("\x1b\\[[0-9;]*m", "", text)


PROGRESS = {
    "format": "npformer exercises 1",
    "exercises": {"softmax": {"attempts": 1, "hint": 0, "solved": False}},
    "lessons": {"8": "in progress"},
}

CODES = {"32": "green", "31": "red", "33": "yellow"}


@pytest.mark.parametrize(
    ("report", "painted"),
    [
        ("  x   2×3    6 1.0e-16   0,1 -1.0e+00 -1.0e+00    1 right", "green: right"),
        ("  x   2×3    6 3.1e-01   0,1 -1.0e+00  1.1e-01 -9.3 WRONG", "red: WRONG"),
        ("    PROVES NOTHING (all inputs are zero)", "yellow: PROVES NOTHING"),
        (
            "all 12 gradients of 3 checks are right; largest error 1e-15 (2 s)",
            "green: all 12 gradients of 3 checks are right",
        ),
        ("all 61 claims that apply to 2 targets hold (0 s)", "green: all 61 claims that apply to 2 targets hold"),
        ("  causality  DOES NOT HOLD: y[0]", "red: DOES NOT HOLD"),
        ("softmax: not yet; dx is not right.", "yellow: not yet"),
        ("  ✓ forward        it is right", "green: ✓"),
        ("2 of 2 bugs detected (3 s)", "green: 2 of 2 bugs"),
        ("SURVIVES: noam-max", "red: SURVIVES"),
        ("  right   loss 0.03, 97 % of held-out words right", "green: right"),
        ("The right shift of the wrong row is left out, right", ""),
    ],
)
def test_a_verdict_is_coloured_in_its_place_alone(report, painted, monkeypatch, capsys):
    monkeypatch.setattr(terminal, "_chosen", "always")
    tell(report)
    shown = capsys.readouterr().out.rstrip("\n")
    assert unpainted(shown) == report
    parts = shown.split("\x1b[")[1::2]
    assert ", ".join(f"{CODES[code]}: {text}" for code, text in (part.split("m", 1) for part in parts)) == painted


@pytest.mark.parametrize("words", ["grade --list", "lessons", "lessons 8", "museum"])
@pytest.mark.parametrize("wide", [60, 80, 120])
def test_lists_fit_the_terminal(cli, terminal, tmp_path, words, wide):
    (tmp_path / "npformer-progress.json").write_text(json.dumps(PROGRESS))
    terminal(wide)
    shown = unpainted(cli(words).out)
    assert max(map(len, shown.splitlines())) <= wide
    marked = [line for line in shown.splitlines() if line.startswith("  … ")]
    assert all(line.endswith("in progress") == (wide > 60) for line in marked)  # the mark says it, too


@pytest.mark.parametrize("words", ["bench --siz small", "explain rotary --at 'nothing[1]'"])
def test_errors_fit_the_terminal_and_stay_on_a_line_in_a_pipe(cli, terminal, words):
    stderr = cli(words).err.split("npformer")[-1]
    terminal(60, "stderr")
    folded = cli(words).err.split("npformer")[-1]
    assert stderr.count("\n") == 1 < folded.count("\n")
    assert max(map(len, folded.splitlines())) <= 60
    assert folded.split() == stderr.split()
