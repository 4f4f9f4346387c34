"""README's first steps: the commands run in their order, at a small size, and end as the page says."""

import os
import re
import shlex
import signal

import pytest

from npformer.run.progress import RunProgress
from tests.cli.conftest import TINY, assignments
from tests.markdown import commands, text_of

PAGE = text_of("README.md")
STEPS = PAGE.partition("## First steps")[2].partition("\n## ")[0]
SMALL = TINY | {"kernels": "numpy", "steps": 8}
INTERRUPTED = "train sort"


def made_small(words):
    """The words of a command, with options that make it quick."""
    if words[0] == "decode":
        return words if "--max-len" not in words else [*words, "--max-len", "5"]
    if words[0] != "train":
        return words
    if "--resume" in words:
        return [re.sub(r"^steps=\d+$", f"steps={2 * SMALL['steps']}", word) for word in words]
    options = SMALL | ({"max_length": 16, "num_layers": 1} if words[1] == "lm" else {})
    return [*words, *assignments(options)]


@pytest.fixture
def typed(cli, monkeypatch):
    """typed(line): the outcome of a command of the page; None if it is none of npformer's."""

    def outcome(line):
        program, *words = shlex.split(line)
        if not program.endswith("npformer"):
            return None
        with monkeypatch.context() as patch:
            if " ".join(words) == INTERRUPTED:
                patch.setattr(RunProgress, "advance", interrupted_at(3))
            return cli(*made_small(words))

    return outcome


def interrupted_at(step):
    """RunProgress.advance, but for a Ctrl-C in that step."""
    made = iter(range(1, 100))
    return lambda self: signal.raise_signal(signal.SIGINT) if next(made) == step else None


@pytest.mark.usefixtures("usual_signals")
def test_the_first_steps(typed, tmp_path):
    """The commands of the page, typed one after the other in an empty folder."""
    (tmp_path / "mine.txt").write_text(PAGE, encoding="utf-8")  # what cat does
    outcomes = [(line.removeprefix(".venv/bin/"), typed(line)) for line in commands(STEPS)]
    hour = [(line, done.code, done.out + done.err) for line, done in outcomes if done]
    codes = {command: code for command, code, _ in hour}
    assert codes.pop("npformer " + INTERRUPTED) == 130
    assert set(codes.values()) == {0}
    texts = {command.partition(" --set")[0]: text for command, _, text in hour}
    assert "npformer train --resume runs/sort-001" in texts["npformer " + INTERRUPTED]
    assert "steps 3 to 8" in texts["npformer train --resume runs/sort-001"]
    extended = texts["npformer train --resume runs/reverse-001"]
    assert "steps 8 to 16" in extended
    assert "note: the run goes on to step 16 instead of 8; by the schedule warmup_cosine the rate of" in extended
    continued = next(text for command, _, text in hour if command.startswith("npformer decode runs/lm-001"))
    assert continued.startswith("The gradient of")
    assert {"curves.svg", "attention.svg", "config.toml"} <= set(os.listdir(tmp_path / "runs" / "reverse-001"))
